// Package wan carries typed messages between nodes. It is the only package
// with sockets for node-to-node traffic, and the only way to send a message.
//
// A [Transport] belongs to one node and offers two things:
//
//   - [Transport.Call] sends a request and waits for the answer. The handler
//     runs in a goroutine of a bounded pool; the caller's deadline and its
//     cancellation reach the handler's context; errors come back as
//     [base.Error] with code, text, Node and Key.
//   - [Transport.Send] is one-way: ordered per peer and class, not reliable (a
//     message is lost when the connection breaks), never blocking.
//
// There are two implementations behind the same code for frames, calls,
// handlers and counters: TCP ([NewTCP]) and an emulated network inside one
// process ([NewNetwork]), which encodes and decodes every message all the
// same, so no memory is shared between nodes.
//
// # Classes
//
// Each directed pair of nodes has one ordered stream per class: consensus and
// heartbeats; requests; snapshots. So a snapshot does not hold up a heartbeat, and
// there is no order between messages of different classes. Answers return on
// the stream of their request.
//
// # Connections that are stuck
//
// When a path was cut for a while, TCP sends again what it had sent in vain only after a pause as
// long as the cut. While a connection waits so (two tries in vain, a second or more until the next
// one; Linux says so), or a dial takes more than half a second, the node tries another one beside
// it: one at a time for each peer, half a second and two round trips long, four a second at most.
// If that comes up, what is stuck is closed and made anew. Its messages are lost and its calls end
// without an answer, as when a connection breaks.
//
// # Batches
//
// A stream's frames are encoded into one buffer, and what gathers there while a
// write is under way leaves with the next one, compressed as a whole: a busy
// stream makes few writes, an idle one delays nothing. [Transport.SetBatching]
// switches that off towards other regions, which shows what it is good for.
//
// # Bounds
//
// Every queue is bounded, see [Limits]. A full queue fails Call and Send at
// once with [base.CodeOverloaded]; a receiver with too many requests waiting
// answers so. An answer that finds its stream full holds its handler
// goroutine, which in turn is one of a bounded number: that is how a slow
// reader slows the peer down instead of filling its memory.
//
// # What a failed Call means
//
// A request may have run although its Call failed. [NeverRan] tells the two
// cases apart: true means that it never left this node, or that the peer
// refused it before any handler saw it. Everything else is "sent, no answer":
// [base.CodeUnavailable] then only says that the stream broke, NOT that
// nothing was done, and for a request with effects the caller must report
// [base.CodeAmbiguous] or find out.
//
// # Frames
//
// All integers are little endian; the checksum is CRC-32C over everything
// behind it.
//
//	length (4) of what follows | crc (4) | version (1) | kind (1) | type (1) | flags (1) | timeout
//	   us (4) | request id (8) | body
//
// Malformed bytes close the connection with a logged error. A connection
// begins with a hello and its welcome (hello.go), whose layout never changes,
// so that nodes of different versions can at least tell each other so.
package wan
