package epoch

import (
	"crypto/sha256"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// Frame is a batch, or a slice of one, under its name (view, epoch, hash; the origin is who
// gave it to the round), with what its node holds.
type Frame struct {
	View, Epoch uint64
	Hash        []byte // of the batch as submitted, whatever is left of it here
	Held        uint64
	Merged      uint64
	Digest      Digest
	Batch       []byte // filter.Encode; nil if nothing was submitted
	// RTTs are the sender's round trips to the members in microseconds, 0 if unknown; nil in most
	// frames.
	RTTs []uint32
	// Along with RTTs: the size of the sender's batches of late, and its uplink in kbit/s, 0 if no
	// limit is known.
	Bytes, Uplink uint32
	// Plan says, in the frame of the view's first member, how rounds travel from some epochs later
	// on; nil: as before.
	Plan []byte
}

// HashOf names the contents of a batch.
func HashOf(batch []byte) []byte {
	h := sha256.Sum256(batch)
	return h[:16]
}

// Encode makes the bytes of a frame.
func (f *Frame) Encode() []byte {
	w := wire.EpochFrame{View: f.View, Epoch: f.Epoch, Hash: f.Hash, Held: f.Held, Merged: f.Merged,
		Digest: f.Digest[:], Batch: f.Batch, RttUs: f.RTTs, BatchBytes: f.Bytes, UplinkKbit: f.Uplink, Plan: f.Plan}
	out, err := w.MarshalVT()
	if err != nil {
		panic("epoch: " + err.Error()) // generated code does not fail
	}
	return out
}

// DecodeFrame undoes Encode.
func DecodeFrame(data []byte) (*Frame, error) {
	var w wire.EpochFrame
	if err := w.UnmarshalVT(data); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "a batch of an epoch cannot be read: %v", err)
	}
	f := &Frame{View: w.View, Epoch: w.Epoch, Hash: w.Hash, Held: w.Held, Merged: w.Merged, Batch: w.Batch,
		RTTs: w.RttUs, Bytes: w.BatchBytes, Uplink: w.UplinkKbit, Plan: w.Plan}
	var err error
	if f.Digest, err = ParseDigest(w.Digest); err != nil {
		return nil, err
	}
	return f, nil
}

// Split cuts a frame by key, so that conflicting transactions of different nodes meet; Join undoes
// it.
func Split(data []byte, n int) [][]byte {
	out := make([][]byte, n)
	f, err := DecodeFrame(data)
	if err != nil || len(f.Batch) == 0 {
		for i := range out {
			out[i] = data
		}
		return out
	}
	b, err := filter.Decode(0, f.Batch)
	if err != nil {
		for i := range out { // whoever merges complains
			out[i] = data
		}
		return out
	}
	for i, s := range filter.Slices(b, n) {
		g := *f
		g.Batch = nil
		if len(s.Txns) > 0 {
			g.Batch = filter.Encode(&s)
		}
		out[i] = g.Encode()
	}
	return out
}

// Join puts the slices of a frame together. A transaction may be in several.
func Join(parts [][]byte) []byte {
	if len(parts) == 0 {
		return nil
	}
	f, err := DecodeFrame(parts[0])
	if err != nil {
		return parts[0]
	}
	var all filter.Batch
	for _, p := range parts {
		g, err := DecodeFrame(p)
		if err != nil {
			return p
		}
		b, err := filter.Decode(0, g.Batch)
		if err != nil {
			return p
		}
		all.Txns = append(all.Txns, b.Txns...)
	}
	f.Batch = nil
	if len(all.Txns) > 0 {
		f.Batch = filter.Encode(&all)
	}
	return f.Encode()
}

// Shorten filters the frames of a group, by origin; it returns, for each, whether it was
// shortened and because of whom. One frame needs nothing done.
func Shorten(origins []int, frames [][]byte) (out [][]byte, needs [][]int, err error) {
	bs := make([]filter.Batch, len(frames))
	fs := make([]*Frame, len(frames))
	full := 0
	for i := range frames {
		if fs[i], err = DecodeFrame(frames[i]); err != nil {
			return nil, nil, err
		}
		b, err := filter.Decode(origins[i], fs[i].Batch)
		if err != nil {
			return nil, nil, err
		}
		bs[i] = *b
		if len(b.Txns) > 0 {
			full++
		}
	}
	if full == 0 {
		return nil, nil, nil
	}
	filter.Group(Rule, bs)
	out, needs = make([][]byte, len(frames)), make([][]int, len(frames))
	for i := range bs {
		if len(fs[i].Batch) == 0 {
			out[i] = frames[i]
			continue
		}
		fs[i].Batch = filter.Encode(&bs[i])
		out[i], needs[i] = fs[i].Encode(), bs[i].Needs
	}
	return out, needs, nil
}
