//! Memory that a run dropped, for what asks next.

use std::collections::VecDeque;

/// Memory that was dropped in a run, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    rooms: VecDeque<Vec<u64>>,
    bytes: u64,
}

/// Words from which on memory is kept: the allocator has smaller pieces at hand.
const LEAST: usize = 2048;

impl Spare {
    /// Bytes of all of it.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory of so many words, or a few more; what is left is as much as there may be besides memory in use.
    pub(crate) fn take(&mut self, words: usize, most: u64) -> Option<Vec<u64>> {
        let fits = |room: &Vec<u64>| (words..=words + words / 8).contains(&room.len());
        let found = self.rooms.iter().enumerate().rev().filter(|(_, room)| fits(room));
        let at = found.min_by_key(|(_, room)| room.len()).map(|(at, _)| at);
        let room = at.and_then(|at| self.rooms.remove(at));
        self.bytes -= room.as_ref().map_or(0, bytes_of);
        self.shrink(most);
        room
    }

    /// Keeps memory, at most so many bytes of it.
    pub(crate) fn keep(&mut self, room: Vec<u64>, most: u64) {
        if room.len() >= LEAST {
            self.bytes += bytes_of(&room);
            self.rooms.push_back(room);
            self.shrink(most);
        }
    }

    /// Gives the oldest memory back to the system until there is not more than this.
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
