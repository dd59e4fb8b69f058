package recording

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"time"

	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/digest"
)

// The bounds of a recorder.
const (
	// MaxBytes is what is kept of statements, and half as much of their texts at most.
	MaxBytes = chunks * chunkBytes
	// Rate is how many bytes are kept a second, on average, and burst how many at once.
	Rate  = 64 << 10
	burst = 256 << 10

	chunks     = 128
	chunkBytes = 64 << 10
	// Texts without literals: how many, of how many bytes in sum, and each.
	maxTexts     = 8192
	maxTextBytes = 4 << 20
	maxText      = 16 << 10
	// maxLiterals is how many literals a statement may have, and maxLiteral how much is kept of
	// one: the beginning, the length, and a sum that tells it from others.
	maxLiterals = 512
	maxLiteral  = 64
	// maxTraits is room for those of a session.
	maxTraits = 1 << 10
)

// Note is a statement that has ended.
type Note struct {
	digest.Statement
	Session uint64
	Began   time.Time
	Binds   map[string]*querypb.BindVariable // of a prepared one
	// Lost: it failed, and who tries it again may succeed (1213, 1205).
	Lost bool
	// Goes: its transaction goes on. Was: it was part of one when it began.
	Goes, Was bool
	// Settings are asked now and then. Nil: there are none.
	Settings Settings
}

// Settings are those of a session that matter for what its statements cost.
type Settings interface {
	// Traits are statements that set what the session has set.
	Traits() []string
}

// Recorder keeps statements. It is safe for concurrent use. The zero value keeps nothing.
type Recorder struct {
	on   atomic.Bool
	open atomic.Bool // new transactions are kept
	// following counts the sessions whose transaction is being kept.
	following atomic.Int64
	opens     atomic.Int64 // when it opens again, in nanoseconds of the Unix epoch
	missed    atomic.Int64 // statements that were not kept, for want of room or because they are too long

	mu     sync.Mutex
	texts  map[string]uint32
	names  []text
	bytes  int // of the texts
	ring   [chunks][]byte
	newest int   // its place in the ring
	slice  int64 // grows with each pause
	room   float64
	filled time.Time
	in     map[uint64]bool // sessions whose transaction is kept
	met    map[uint64]bool // sessions whose traits are in the newest chunk

	buf, key, one []byte // used again
	literals      []string
}

type text struct{ schema, text string }

// Keep switches the recorder on, or off: then it forgets all.
func (r *Recorder) Keep(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on == r.on.Load() {
		return
	}
	r.forget()
	r.room = burst
	r.on.Store(on)
	r.open.Store(on)
}

func (r *Recorder) forget() {
	r.texts, r.names, r.bytes = map[string]uint32{}, nil, 0
	r.ring, r.newest = [chunks][]byte{}, 0
	r.in, r.met = map[uint64]bool{}, map[uint64]bool{}
	r.following.Store(0)
	r.slice++
}

// Wants reports whether a statement that ends now may be kept: it is asked before [Recorder.Add] is
// given one.
func (r *Recorder) Wants(now time.Time) bool {
	switch {
	case !r.on.Load():
		return false
	case r.open.Load() || r.following.Load() > 0:
		return true
	case now.UnixNano() < r.opens.Load():
		r.missed.Add(1)
		return false
	}
	return true
}

// Add keeps a statement, or not.
func (r *Recorder) Add(n *Note) {
	if !r.open.Load() && n.End.UnixNano() >= r.opens.Load() {
		r.reopen(n.End)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on.Load() && r.wants(n) {
		r.add(n)
	}
}

// reopen begins another slice.
func (r *Recorder) reopen(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open.Load() && r.on.Load() {
		r.refill(now)
		r.slice++
		r.open.Store(true)
	}
}

func (r *Recorder) refill(now time.Time) {
	if !r.filled.IsZero() {
		r.room = math.Min(burst, r.room+Rate*now.Sub(r.filled).Seconds())
	}
	r.filled = now
}

// wants reports whether a statement belongs to a transaction that is kept.
func (r *Recorder) wants(n *Note) bool {
	switch kept := r.in[n.Session]; {
	case n.Was && !kept, !kept && !r.open.Load():
		r.missed.Add(1)
		return false
	case n.Goes && !kept:
		r.in[n.Session] = true
		r.following.Add(1)
	case !n.Goes && kept:
		delete(r.in, n.Session)
		r.following.Add(-1)
	}
	return true
}

// Left tells that a session has ended.
func (r *Recorder) Left(session uint64) {
	if r.following.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in[session] {
		delete(r.in, session)
		r.following.Add(-1)
	}
}

func (r *Recorder) add(n *Note) {
	r.refill(n.End)
	r.buf, r.literals = r.buf[:0], r.literals[:0]
	if len(n.Text) <= maxText {
		r.buf, r.literals = digest.Split(n.Text, n.Mode, r.buf, r.literals)
	}
	if len(n.Text) > maxText || len(r.literals) > maxLiterals {
		r.missed.Add(1)
		return
	}
	// Too many texts, and all begins anew: then most of what is kept is of texts that do not come
	// again.
	if len(r.names) > maxTexts-16 || r.bytes > maxTextBytes-2*maxText {
		r.forget()
	}
	id := r.textOf(n.Schema, r.buf)
	r.one = r.values(r.head(r.one[:0], n, id, false), n.Binds)
	if len(r.ring[r.newest])+len(r.one) > chunkBytes-maxTraits {
		r.newest = (r.newest + 1) % chunks
		r.ring[r.newest] = r.ring[r.newest][:0]
		clear(r.met)
	}
	chunk := r.ring[r.newest]
	if !r.met[n.Session] && n.Settings != nil {
		r.met[n.Session] = true
		for _, t := range n.Settings.Traits() {
			chunk = r.head(chunk, n, r.textOf("", []byte(t)), true)
		}
	}
	r.ring[r.newest] = append(chunk, r.one...)
	r.room -= float64(len(r.one))
	if r.room <= 0 && r.open.Load() {
		r.open.Store(false)
		r.opens.Store(n.End.Add(burst * time.Second / Rate).UnixNano())
	}
}

// textOf is the number of a text without literals.
func (r *Recorder) textOf(schema string, t []byte) uint32 {
	r.key = append(append(append(r.key[:0], schema...), 0), t...)
	if id, ok := r.texts[string(r.key)]; ok {
		return id
	}
	name := string(r.key)
	id := uint32(len(r.names))
	r.texts[name] = id
	r.names = append(r.names, text{name[:len(schema)], name[len(schema)+1:]})
	r.bytes += len(name)
	return id
}

// The flags of a statement.
const (
	flagTrait = 1 << iota
	flagGoes
	flagWas
	flagFailed
	flagLost
)

// head appends what is no literal.
func (r *Recorder) head(b []byte, n *Note, id uint32, trait bool) []byte {
	flags := uint64(0)
	for i, on := range []bool{trait, n.Goes, n.Was, n.Failed, n.Lost} {
		if on {
			flags |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(id))
	b = binary.AppendUvarint(b, n.Session)
	b = binary.AppendUvarint(b, uint64(r.slice))
	b = binary.AppendVarint(b, n.Began.UnixMicro())
	if trait {
		return b
	}
	for _, v := range []int64{n.Elapsed.Microseconds(), n.Hops, n.Bytes, int64(n.Affected), int64(n.Sent)} {
		b = binary.AppendUvarint(b, uint64(max(0, v)))
	}
	return b
}

// values appends the literals, those of placeholders among them.
func (r *Recorder) values(b []byte, binds map[string]*querypb.BindVariable) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.literals)))
	at := 0
	for _, l := range r.literals {
		size := len(l)
		if l == "?" {
			at++
			l, size = boundText(binds, at)
		}
		b = appendLiteral(b, l, size)
	}
	return b
}

// appendLiteral appends a literal with its length; of a long one the beginning, and a sum behind
// it.
func appendLiteral(b []byte, l string, size int) []byte {
	b = binary.AppendUvarint(b, uint64(size))
	if size <= maxLiteral {
		return append(b, l...)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(l))
	return binary.BigEndian.AppendUint64(append(b, l[:maxLiteral-8]...), h.Sum64())
}
