package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// FormatVersion is the version of the text form. Versions, rising:
//
//	1: header line, "init" and "final" lines (one key each), one line a transaction.
const FormatVersion = 1

// line is one JSON line. Exactly one of its pointers is set.
type line struct {
	Header *header  `json:"history,omitempty"`
	Init   *KV      `json:"init,omitempty"`
	Final  *KV      `json:"final,omitempty"`
	Txn    *jsonTxn `json:"txn,omitempty"`
}

type header struct {
	Version int  `json:"version"`
	Txns    int  `json:"txns"`
	Final   bool `json:"final,omitempty"` // the final state was read, though it may be empty
}

type jsonTxn struct {
	ID      int64    `json:"id"`
	Client  int      `json:"client"`
	Region  string   `json:"region,omitempty"`
	Regions []string `json:"regions,omitempty"`
	Invoke  int64    `json:"invoke"`
	Return  int64    `json:"return"`
	Outcome string   `json:"outcome"`
	TS      uint64   `json:"ts,omitempty"`
	Snap    uint64   `json:"snap,omitempty"`
	Stale   bool     `json:"stale,omitempty"`
	Ops     []jsonOp `json:"ops,omitempty"`
}

type jsonOp struct {
	Op   string   `json:"op"`
	Key  string   `json:"k"`
	End  string   `json:"end,omitempty"`
	Val  string   `json:"v,omitempty"`
	List []string `json:"list,omitempty"`
	Rows []KV     `json:"rows,omitempty"`
}

// WriteTo saves the history as JSON lines: a header, the initial and final state, one line a
// transaction. Keys and values must be valid UTF-8 (encode binary keys before they are recorded).
func (h *History) WriteTo(w io.Writer) (int64, error) {
	bw := bufio.NewWriter(w)
	count := &countingWriter{w: bw}
	enc := json.NewEncoder(count)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line{Header: &header{FormatVersion, len(h.Txns), h.Final != nil}}); err != nil {
		return count.n, err
	}
	for _, k := range slices.Sorted(maps.Keys(h.Init)) {
		if err := enc.Encode(line{Init: &KV{k, h.Init[k]}}); err != nil {
			return count.n, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(h.Final)) {
		if err := enc.Encode(line{Final: &KV{k, h.Final[k]}}); err != nil {
			return count.n, err
		}
	}
	for i := range h.Txns {
		t := &h.Txns[i]
		j := jsonTxn{t.ID, t.Client, t.Region, t.Regions, t.Invoke, t.Return, t.Outcome.String(), t.Timestamp,
			t.Snapshot, t.Stale,
			make([]jsonOp, len(t.Ops))}
		for n, o := range t.Ops {
			j.Ops[n] = jsonOp{o.Kind.String(), o.Key, o.End, o.Value, o.List, o.Rows}
		}
		if err := enc.Encode(line{Txn: &j}); err != nil {
			return count.n, err
		}
	}
	return count.n, bw.Flush()
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Read loads a history saved by WriteTo, and validates it.
func Read(r io.Reader) (*History, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	dec.DisallowUnknownFields()
	var h *History
	var want int
	for n := 1; ; n++ {
		var l line
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		switch {
		case err != nil:
		case h == nil:
			h, want, err = l.history()
		default:
			err = h.take(&l)
		}
		if err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
	}
	if h == nil {
		return nil, fmt.Errorf("history: the file is empty")
	}
	if len(h.Txns) != want {
		return nil, fmt.Errorf("history: %d transactions, the header promises %d: the file is cut off", len(h.Txns), want)
	}
	return h, h.Validate()
}

// history begins a history with its header, which says how many transactions there are.
func (l *line) history() (h *History, txns int, err error) {
	if l.Header == nil {
		return nil, 0, fmt.Errorf("it is not a header: is this a saved history?")
	}
	if l.Header.Version < 1 || l.Header.Version > FormatVersion {
		return nil, 0, fmt.Errorf("format version %d, this program reads 1 to %d: use the one that wrote it",
			l.Header.Version, FormatVersion)
	}
	h = &History{Init: map[string]string{}}
	if l.Header.Final {
		h.Final = map[string]string{}
	}
	return h, l.Header.Txns, nil
}

// take adds what a line after the header has.
func (h *History) take(l *line) error {
	switch {
	case l.Init != nil:
		h.Init[l.Init.Key] = l.Init.Value
	case l.Final != nil:
		if h.Final == nil {
			return fmt.Errorf("it has a final value, but the header says that there is none")
		}
		h.Final[l.Final.Key] = l.Final.Value
	case l.Txn != nil:
		t, err := l.Txn.txn()
		if err != nil {
			return err
		}
		h.Txns = append(h.Txns, t)
	default:
		return fmt.Errorf("it is empty or a second header")
	}
	return nil
}

func (j *jsonTxn) txn() (Txn, error) {
	t := Txn{ID: j.ID, Client: j.Client, Region: j.Region, Regions: j.Regions, Invoke: j.Invoke, Return: j.Return,
		Timestamp: j.TS, Snapshot: j.Snap, Stale: j.Stale}
	o := slices.Index(outcomeNames[:], j.Outcome)
	if o < 0 {
		return t, fmt.Errorf("outcome %q, want one of %v", j.Outcome, outcomeNames)
	}
	t.Outcome = Outcome(o)
	for _, jo := range j.Ops {
		k := slices.Index(opNames[:], jo.Op)
		if k < 0 {
			return t, fmt.Errorf("operation %q, want one of %v", jo.Op, opNames)
		}
		t.Ops = append(t.Ops, Op{OpKind(k), jo.Key, jo.End, jo.Val, jo.List, jo.Rows})
	}
	return t, nil
}
