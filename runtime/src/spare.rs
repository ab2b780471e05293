//! Memory that a run dropped, for reuse.

use std::collections::VecDeque;

/// Memory dropped in a run, the most recent last.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    rooms: VecDeque<Vec<u64>>,
    bytes: u64,
}

/// Minimum number of words of memory that is kept; smaller pieces are cheap to allocate.
const LEAST: usize = 2048;

impl Spare {
    /// Returns the total number of bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes memory with at least `words` words, and at most an eighth more. Shrinks the rest to `most` bytes, the
    /// limit minus the memory in use.
    pub(crate) fn take(&mut self, words: usize, most: u64) -> Option<Vec<u64>> {
        let fits = |room: &Vec<u64>| (words..=words + words / 8).contains(&room.len());
        let found = self.rooms.iter().enumerate().rev().filter(|(_, room)| fits(room));
        let at = found.min_by_key(|(_, room)| room.len()).map(|(at, _)| at);
        let room = at.and_then(|at| self.rooms.remove(at));
        self.bytes -= room.as_ref().map_or(0, bytes_of);
        self.shrink(most);
        room
    }

    /// Keeps dropped memory, at most `most` bytes in total.
    pub(crate) fn keep(&mut self, room: Vec<u64>, most: u64) {
        if room.len() >= LEAST {
            self.bytes += bytes_of(&room);
            self.rooms.push_back(room);
            self.shrink(most);
        }
    }

    /// Frees the oldest memory until at most `most` bytes are left.
    fn shrink(&mut self, most: u64) {
        while self.bytes > most
            && let Some(room) = self.rooms.pop_front()
        {
            self.bytes -= bytes_of(&room);
        }
    }
}

#[expect(clippy::ptr_arg, reason = "it is mapped over owned vectors")]
pub(crate) fn bytes_of(room: &Vec<u64>) -> u64 {
    size_of_val(&room[..]) as u64
}
