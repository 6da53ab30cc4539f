//! Pairs of connected sockets that keep message boundaries, descriptor passing, and who the peer
//! is.
#![allow(unsafe_code, reason = "socketpair, sendmsg, recvmsg, getsockopt")]

use core::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::{Errno, Result, SysError, check, check_len};

/// Most descriptors one message carries here. The kernel's own limit is 253.
pub const DESCRIPTOR_COUNT_MAX: usize = 64;

/// Bytes of the control buffer: one header and the largest list, in words for alignment.
const CONTROL_WORDS: usize = 2 + DESCRIPTOR_COUNT_MAX * size_of::<RawFd>() / size_of::<u64>() + 2;

/// Who is at the other end, as of the moment the pair was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process, in the reader's PID namespace; zero when outside of it.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// One received message.
#[derive(Debug)]
pub struct Received {
    /// Bytes stored in the caller's buffer; zero with no descriptors means the peer closed.
    pub len: usize,
    /// Descriptors that came along, closed on exec.
    pub descriptors: Vec<OwnedFd>,
    /// The message was longer than the buffer, or carried more descriptors than fit; the rest is
    /// lost.
    pub truncated: bool,
}

/// `int socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, int sv[2]);`
///
/// Two connected ends; a message sent is a message received, in order.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
///
/// # References
/// socketpair(2), unix(7)
pub fn seqpacket_pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut pair = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `pair` is two writable integers.
    let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
    check("socketpair", result)?;
    // SAFETY: a fresh descriptor that nothing else owns.
    let own = |raw| unsafe { OwnedFd::from_raw_fd(raw) };
    let [one, two] = pair.map(own);
    Ok((one, two))
}

/// `int fcntl(int fd, F_SETFL, int flags);` with or without `O_NONBLOCK`.
///
/// The flag belongs to this end of the pair, and to every process that shares the descriptor.
///
/// # Errors
/// None in practice.
///
/// # References
/// F_SETFL(2const)
pub fn set_nonblocking(socket: impl AsFd, enabled: bool) -> Result<()> {
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: a query about an open descriptor.
    let flags = check("fcntl(F_GETFL)", unsafe { libc::fcntl(raw, libc::F_GETFL) })?;
    let wanted = if enabled { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: sets status flags of an open descriptor.
    check("fcntl(F_SETFL)", unsafe { libc::fcntl(raw, libc::F_SETFL, wanted) }).map(drop)
}

/// `ssize_t send(int sockfd, const void *buf, size_t len, MSG_NOSIGNAL);`
///
/// Sends one message whole.
///
/// # Errors
/// `EPIPE`: the peer closed; `EAGAIN`: non-blocking and full; `EMSGSIZE`: too long; `EINTR`.
///
/// # References
/// send(2), unix(7)
pub fn send(socket: impl AsFd, bytes: &[u8]) -> Result<()> {
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and length are those of a live slice.
    let sent = unsafe { libc::send(raw, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    check_len("send", sent).map(drop)
}

/// `ssize_t recv(int sockfd, void *buf, size_t len, 0);`
///
/// Receives one message and returns its length; zero means the peer closed (or sent an empty
/// message). What does not fit in the buffer is lost, and so are descriptors that came along.
///
/// # Errors
/// `EAGAIN`: non-blocking and empty; `ECONNRESET`: the peer closed with our messages unread;
/// `EINTR`.
///
/// # References
/// recv(2), unix(7)
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and length are those of a live, writable slice.
    let received = unsafe { libc::recv(raw, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    check_len("recv", received)
}

/// `ssize_t sendmsg(int sockfd, const struct msghdr *msg, MSG_NOSIGNAL);` with `SCM_RIGHTS`.
///
/// Sends one message with copies of descriptors. The bytes must not be empty.
///
/// # Errors
/// As [`send`]; `EINVAL`: no bytes, or more than [`DESCRIPTOR_COUNT_MAX`] descriptors;
/// `ETOOMANYREFS`: too many descriptors under way.
///
/// # References
/// sendmsg(2), SCM_RIGHTS in unix(7), cmsg(3)
pub fn send_with_descriptors(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<()> {
    if bytes.is_empty() || descriptors.len() > DESCRIPTOR_COUNT_MAX {
        return Err(SysError::new("sendmsg", Errno::INVAL));
    }
    if descriptors.is_empty() {
        return send(socket, bytes);
    }
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut header = message_header(&mut part, &mut control);
    let list_len = u32::try_from(size_of_val(descriptors))
        .map_err(|_| SysError::new("sendmsg", Errno::INVAL))?;
    // SAFETY: plain arithmetic.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(list_len) } as usize;
    // SAFETY: `header` has a control buffer of that length, which has room for a first entry.
    let entry = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: `entry` points into `control`, which is aligned for it and zeroed, so initialised.
    let entry_ref = unsafe { &mut *entry };
    entry_ref.cmsg_level = libc::SOL_SOCKET;
    entry_ref.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: plain arithmetic.
    entry_ref.cmsg_len = unsafe { libc::CMSG_LEN(list_len) } as usize;
    // SAFETY: plain arithmetic on the entry's address.
    let list = unsafe { libc::CMSG_DATA(entry) };
    // SAFETY:
    // - `list` has that many bytes inside `control`, which has room for DESCRIPTOR_COUNT_MAX;
    // - a BorrowedFd is a descriptor number in memory (`repr(transparent)`), and lives until the
    //   call.
    unsafe { list.copy_from_nonoverlapping(descriptors.as_ptr().cast(), size_of_val(descriptors)) };
    // SAFETY: `header` points to live buffers, which the call only reads.
    let sent =
        unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    check_len("sendmsg", sent).map(drop)
}

/// `ssize_t recvmsg(int sockfd, struct msghdr *msg, MSG_CMSG_CLOEXEC);`
///
/// Receives one message with its descriptors, at most [`DESCRIPTOR_COUNT_MAX`].
///
/// # Errors
/// As [`recv`].
///
/// # References
/// recvmsg(2), SCM_RIGHTS in unix(7), cmsg(3)
pub fn recv_with_descriptors(socket: impl AsFd, buffer: &mut [u8]) -> Result<Received> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut header = message_header(&mut part, &mut control);
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: `header` points to live, writable buffers of the given lengths.
    let received = unsafe { libc::recvmsg(raw, &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let len = check_len("recvmsg", received)?;
    let descriptors = take_descriptors(&header);
    let truncated = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    Ok(Received { len, descriptors, truncated })
}

/// `int getsockopt(int sockfd, SOL_SOCKET, SO_PEERCRED, void *optval, socklen_t *optlen);`
///
/// # Errors
/// `ENOTSOCK`, `ENOTCONN`.
///
/// # References
/// SO_PEERCRED in unix(7)
pub fn peer_credentials(socket: impl AsFd) -> Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>())
        .map_err(|_| SysError::new("getsockopt", Errno::INVAL))?;
    let raw = socket.as_fd().as_raw_fd();
    let target = (&raw mut found).cast();
    // SAFETY: `target` has `len` writable bytes; every bit pattern is a value of ucred.
    let result =
        unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, libc::SO_PEERCRED, target, &raw mut len) };
    check("getsockopt(SO_PEERCRED)", result)?;
    Ok(Credentials { pid: u32::try_from(found.pid).unwrap_or(0), uid: found.uid, gid: found.gid })
}

/// A header over one part and a control buffer, both of which must outlive its use.
fn message_header(part: &mut libc::iovec, control: &mut [u64; CONTROL_WORDS]) -> libc::msghdr {
    // SAFETY: msghdr is integers and pointers; all zeroes is a value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control);
    header
}

/// Takes every descriptor out of the control entries of a received message.
fn take_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    // SAFETY: `header` was filled by recvmsg and its control buffer lives.
    let mut entry = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or an entry inside of the control buffer, written by the kernel.
    while let Some(found) = unsafe { entry.as_ref() } {
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: plain arithmetic.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            // SAFETY: plain arithmetic on the entry's address.
            let list = unsafe { libc::CMSG_DATA(entry) }.cast::<[u8; size_of::<RawFd>()]>();
            let count = found.cmsg_len.saturating_sub(head) / size_of::<RawFd>();
            for index in 0..count {
                // SAFETY: the kernel wrote `count` numbers here, read as bytes.
                let raw = RawFd::from_ne_bytes(unsafe { list.wrapping_add(index).read() });
                // SAFETY: a fresh descriptor that the kernel made for this process.
                taken.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
        // SAFETY: `entry` is an entry of `header`.
        entry = unsafe { libc::CMSG_NXTHDR(header, entry) };
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd;
    use crate::process;

    #[test]
    fn messages_keep_their_boundaries() {
        let (one, two) = seqpacket_pair().expect("pair");
        send(&one, b"first").expect("send");
        send(&one, b"second").expect("send");
        let mut buffer = [0; 16];
        assert_eq!(recv(&two, &mut buffer), Ok(5));
        assert_eq!(&buffer[..5], b"first");
        assert_eq!(recv(&two, &mut buffer), Ok(6));
        drop(one);
        assert_eq!(recv(&two, &mut buffer), Ok(0));
        assert_eq!(send(&two, b"x").expect_err("closed").errno, Errno::PIPE);
    }

    #[test]
    fn a_non_blocking_end_does_not_wait() {
        let (one, two) = seqpacket_pair().expect("pair");
        set_nonblocking(&two, true).expect("flag");
        assert_eq!(recv(&two, &mut [0; 4]).expect_err("empty").errno, Errno::AGAIN);
        assert_eq!(
            recv_with_descriptors(&two, &mut [0; 4]).expect_err("empty").errno,
            Errno::AGAIN
        );
        set_nonblocking(&one, true).expect("flag");
        let full = (0..100_000).find_map(|_| send(&one, &[0; 1024]).err()).expect("fills up");
        assert_eq!(full.errno, Errno::AGAIN);
        set_nonblocking(&two, false).expect("flag");
        assert_eq!(recv(&two, &mut [0; 4]), Ok(4));
    }

    #[test]
    fn descriptors_travel() {
        let (one, two) = seqpacket_pair().expect("pair");
        let files = [b"a", b"b"].map(|bytes| memfd::from_bytes("sent", bytes).expect("memfd"));
        let list = [files[0].as_fd(), files[1].as_fd()];
        send_with_descriptors(&one, b"two files", &list).expect("send");
        drop(files);
        let mut buffer = [0; 16];
        let received = recv_with_descriptors(&two, &mut buffer).expect("receive");
        assert_eq!((received.len, received.truncated), (9, false));
        let bytes: Vec<_> =
            received.descriptors.iter().map(|fd| memfd::read_all(fd).expect("read")).collect();
        assert_eq!(bytes, [b"a", b"b"]);
        send_with_descriptors(&one, b"none", &[]).expect("send");
        assert_eq!(recv_with_descriptors(&two, &mut buffer).expect("receive").len, 4);
    }

    #[test]
    fn the_largest_list_fits_and_a_larger_one_is_refused() {
        let (one, two) = seqpacket_pair().expect("pair");
        let list = vec![one.as_fd(); DESCRIPTOR_COUNT_MAX];
        send_with_descriptors(&one, b"x", &list).expect("send");
        let received = recv_with_descriptors(&two, &mut [0; 1]).expect("receive");
        assert_eq!((received.descriptors.len(), received.truncated), (DESCRIPTOR_COUNT_MAX, false));
        let list = vec![one.as_fd(); DESCRIPTOR_COUNT_MAX + 1];
        let error = send_with_descriptors(&one, b"x", &list).expect_err("too many");
        assert_eq!(error, SysError::new("sendmsg", Errno::INVAL));
        let error = send_with_descriptors(&one, b"", &list[..1]).expect_err("no bytes");
        assert_eq!(error.errno, Errno::INVAL);
    }

    #[test]
    fn a_long_message_is_marked_truncated() {
        let (one, two) = seqpacket_pair().expect("pair");
        send(&one, b"too long").expect("send");
        let received = recv_with_descriptors(&two, &mut [0; 3]).expect("receive");
        assert_eq!((received.len, received.truncated), (3, true));
    }

    #[test]
    fn the_peer_of_a_pair_is_its_maker() {
        let (one, _two) = seqpacket_pair().expect("pair");
        assert_eq!(peer_credentials(&one).expect("credentials").pid, process::pid());
        let file = memfd::create("file", 1).expect("memfd");
        assert_eq!(peer_credentials(&file).expect_err("a file").errno, Errno::NOTSOCK);
    }
}
