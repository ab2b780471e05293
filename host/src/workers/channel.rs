//! Exchanges frames between host and worker: short frames go through a socket, and long frames go through memory that both processes have
//! open. The sender writes to that memory, and the receiver copies it before reading. So the data never changes while it is read, and
//! truncated memory causes an error rather than a signal.

use plugin_api::abi::relay::Buffer;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A call, which one reply answers.
    Call = 1,
    Reply = 2,
    /// A message that is not answered.
    Tell = 3,
}

/// Maximum length of a frame that is sent through the socket; longer frames go through shared memory.
const INLINE: usize = 1 << 15;

/// Maximum length of a frame in the socket. Such a frame is buffered before it is parsed, so a longer frame would take memory before it
/// could be refused.
const MOST_INLINE: u64 = 64 << 20;

/// Maximum length of any frame.
pub(super) const MOST: u64 = 8 << 30;

/// Length of a frame's head: its kind, whether it lies in shared memory, and its length.
const HEAD: usize = 16;

/// One end of the connection.
pub(super) struct Channel {
    socket: UnixStream,
    /// Shared memory: `outbox` for the frames that this end sends, and `inbox` for the frames that it receives.
    outbox: File,
    inbox: File,
    /// Bytes that are about to be sent. One writer at a time uses them.
    pending: Mutex<Vec<u8>>,
    /// Bytes read from the socket that do not yet form a whole frame.
    received: Mutex<Vec<u8>>,
    /// Maximum length of a frame that is accepted.
    most: AtomicU64,
}

fn lost(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Channel {
    pub(super) fn new(socket: UnixStream, outbox: File, inbox: File) -> Channel {
        let (pending, received) = Default::default();
        Channel { socket, outbox, inbox, pending, received, most: AtomicU64::new(MOST) }
    }

    /// Sets the maximum length of a frame.
    pub(super) fn set_most(&self, bytes: u64) {
        self.most.store(bytes.min(MOST), Ordering::Relaxed);
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a frame, after all frames that were queued before it.
    pub(super) fn send(&self, frame: Frame, bytes: &[u8]) -> io::Result<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Under a limit on file sizes (RLIMIT_FSIZE), writing to shared memory can fail, because the system treats it as a file.
        let written = if bytes.len() > INLINE { Some(self.outbox.write_all_at(bytes, 0)) } else { None };
        let far = matches!(written, Some(Ok(())));
        if let Some(Err(error)) = written.filter(|_| bytes.len() as u64 > MOST_INLINE) {
            return Err(error);
        }
        put(&mut pending, frame, bytes, far);
        self.flush(&mut pending)
    }

    /// Queues a frame that needs no answer. It is sent with the next frame, or immediately if `at_once` is true.
    pub(super) fn tell(&self, bytes: &[u8], at_once: bool) -> io::Result<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut pending, Frame::Tell, bytes, false);
        if at_once || pending.len() > INLINE { self.flush(&mut pending) } else { Ok(()) }
    }

    fn flush(&self, pending: &mut Vec<u8>) -> io::Result<()> {
        let written = (&self.socket).write_all(pending);
        pending.clear();
        written
    }

    /// Returns a frame that arrived together with an earlier one.
    ///
    /// # Errors
    /// If the bytes are not a valid frame.
    pub(super) fn buffered(&self) -> io::Result<Option<(Frame, Buffer)>> {
        self.whole(&mut self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the socket has something to read.
    pub(super) fn has_news(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut wanted = [PollFd::from_borrowed_fd(self.socket(), PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut wanted, Some(&now)).is_ok_and(|n| n > 0)
    }

    /// Returns a frame if one has arrived completely; otherwise reads once from the socket.
    ///
    /// # Errors
    /// If the other end is closed, or the bytes are not a valid frame.
    pub(super) fn receive(&self) -> io::Result<Option<(Frame, Buffer)>> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = self.whole(&mut received)? {
            return Ok(Some(frame));
        }
        let start = received.len();
        let room = self.wanted(&received).clamp(1 << 16, 1 << 24);
        received.resize(start + room, 0);
        let read = (&self.socket).read(&mut received[start..]);
        received.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.whole(&mut received),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the first complete frame from the received bytes.
    fn whole(&self, received: &mut Vec<u8>) -> io::Result<Option<(Frame, Buffer)>> {
        let Some((head, rest)) = received.split_first_chunk::<HEAD>() else { return Ok(None) };
        let (kind, far, len) = read_head(head, self.most.load(Ordering::Relaxed))?;
        let mut buffer;
        if far {
            if !holds(&self.inbox, len as u64)? {
                return Err(lost(SHORT));
            }
            buffer = Buffer::zeroed(len);
            self.inbox.read_exact_at(buffer.bytes_mut(), 0).map_err(|_| lost(SHORT))?;
            received.drain(..HEAD);
        } else {
            let Some(bytes) = rest.get(..len) else { return Ok(None) };
            buffer = Buffer::zeroed(len);
            buffer.bytes_mut().copy_from_slice(bytes);
            received.drain(..HEAD + len);
        }
        Ok(Some((kind, buffer)))
    }

    /// Returns the number of missing bytes of a partly received frame.
    fn wanted(&self, received: &[u8]) -> usize {
        let most = self.most.load(Ordering::Relaxed);
        let head = received.first_chunk::<HEAD>().and_then(|head| read_head(head, most).ok());
        head.map_or(0, |(_, far, len)| if far { 0 } else { (HEAD + len).saturating_sub(received.len()) })
    }

    /// Waits for the next frame.
    pub(super) fn wait(&self) -> io::Result<(Frame, Buffer)> {
        loop {
            if let Some(frame) = self.receive()? {
                return Ok(frame);
            }
        }
    }
}

fn put(out: &mut Vec<u8>, frame: Frame, bytes: &[u8], far: bool) {
    out.extend_from_slice(&u32::to_le_bytes(frame as u32));
    out.extend_from_slice(&u32::to_le_bytes(u32::from(far)));
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    if !far {
        out.extend_from_slice(bytes);
    }
}

/// Returns true if at least `len` bytes of the memory were actually written. Holes do not count, because they would take memory only when the
/// receiver copies them.
fn holds(memory: &File, len: u64) -> io::Result<bool> {
    let facts = memory.metadata()?;
    let written = if cfg!(target_os = "linux") { 512 * facts.blocks() } else { u64::MAX };
    Ok(facts.len() >= len && written >= len)
}

const SHORT: &str = "a message exceeds its shared memory";

fn read_head(head: &[u8; HEAD], most: u64) -> io::Result<(Frame, bool, usize)> {
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let kind = match word(0) {
        1 => Frame::Call,
        2 => Frame::Reply,
        3 => Frame::Tell,
        _ => return Err(lost("it sent an invalid message")),
    };
    let len = u64::from(word(12)) << 32 | u64::from(word(8));
    let far = word(4) != 0;
    if len > most || !far && len > MOST_INLINE {
        return Err(lost(&format!("it announced a message of {len} bytes, which is too long")));
    }
    Ok((kind, far, len as usize))
}

/// Creates memory that another process can open through its descriptor.
pub(super) fn memory() -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{MemfdFlags, memfd_create};
        Ok(File::from(memfd_create("passhost", MemfdFlags::CLOEXEC)?))
    }
    #[cfg(not(target_os = "linux"))]
    tempfile::tempfile()
}

/// Sends open files through a socket.
pub(super) fn send_files(socket: &UnixStream, files: &[&File]) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(lost("too many files for one message"));
    }
    sendmsg(socket, &[io::IoSlice::new(b"f")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the files that the other end sent.
pub(super) fn receive_files(socket: &UnixStream) -> io::Result<Vec<File>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [io::IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files.map(File::from).collect::<Vec<_>>()),
        _ => None,
    });
    Ok(files.flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().expect("a pair");
        let (to, from) = (memory().expect("memory"), memory().expect("memory"));
        let other = Channel::new(b, from.try_clone().expect("a file"), to.try_clone().expect("a file"));
        (Channel::new(a, to, from), other)
    }

    #[test]
    fn frames_arrive_in_order_and_whole() {
        let (a, b) = pair();
        let long = vec![7; 3 * INLINE];
        a.tell(b"first", false).expect("noted");
        a.send(Frame::Call, b"second").expect("sent");
        a.send(Frame::Reply, &long).expect("sent");
        for (kind, bytes) in [(Frame::Tell, &b"first"[..]), (Frame::Call, b"second"), (Frame::Reply, &long)] {
            let (found, buffer) = b.wait().expect("a frame");
            assert_eq!((found, buffer.bytes()), (kind, bytes));
        }
    }

    #[test]
    fn nonsense_and_memory_that_became_shorter_are_errors() {
        let (a, b) = pair();
        (&a.socket).write_all(&[9; 64]).expect("sent");
        assert_eq!(b.wait().err().map(|error| error.to_string()).as_deref(), Some("it sent an invalid message"));
        let (a, b) = pair();
        a.send(Frame::Call, &vec![1; 2 * INLINE]).expect("sent");
        a.outbox.set_len(5).expect("shorter");
        let error = b.wait().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("a message exceeds its shared memory"));
        let (a, b) = pair();
        let mut head = Vec::new();
        put(&mut head, Frame::Call, &[], true);
        head[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        (&a.socket).write_all(&head).expect("sent");
        assert_eq!(b.wait().err().map(|error| error.kind()), Some(io::ErrorKind::InvalidData));
        drop(a);
    }

    /// A sender cannot make the receiver allocate much memory by announcing a long frame and writing little.
    #[test]
    #[cfg(target_os = "linux")]
    fn memory_with_holes_is_no_message() {
        let (a, b) = pair();
        a.outbox.write_all_at(&[1; 4096], (3 << 30) - 4096).expect("written");
        let mut head = Vec::new();
        put(&mut head, Frame::Reply, &[], true);
        head[8..16].copy_from_slice(&(3u64 << 30).to_le_bytes());
        (&a.socket).write_all(&head).expect("sent");
        assert_eq!(b.wait().err().map(|error| error.to_string()).as_deref(), Some(SHORT));
    }

    #[test]
    fn a_frame_has_a_limit_that_can_be_lower() {
        let long = vec![7; 3 * INLINE];
        let (a, b) = pair();
        b.set_most(long.len() as u64);
        a.send(Frame::Reply, &long).expect("sent");
        assert_eq!(b.wait().expect("a frame").1.bytes(), long);
        b.set_most(long.len() as u64 - 1);
        a.send(Frame::Reply, &long).expect("sent");
        let error = b.wait().err().map(|error| error.to_string());
        assert_eq!(error, Some(format!("it announced a message of {} bytes, which is too long", long.len())));
    }

    #[test]
    fn files_cross() {
        let (a, b) = UnixStream::pair().expect("a pair");
        let file = memory().expect("memory");
        file.write_all_at(b"here", 0).expect("written");
        send_files(&a, &[&file]).expect("sent");
        let mut text = [0; 4];
        receive_files(&b).expect("received")[0].read_exact_at(&mut text, 0).expect("read");
        assert_eq!(&text, b"here");
    }
}
