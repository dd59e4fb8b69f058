package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/place"
)

// files writes messages as lines of JSON. A file is named by what had been reached when it was
// written, so that in the order of names all messages up to a mark are in files before the mark's:
//
//	2026-11-26/202611260743151234567890000000000-17-1-000001-shop.t.ndjson
//	2026-11-26/202611260743201234567890000000000.RESOLVED
type files struct {
	p    place.Place
	s    Settings
	mark uint64 // what has been reached
	seq  int
}

// gather is for how long messages of a file are gathered.
const gather = 5 * time.Second

// mostOfFile bounds a file, before it is compressed.
const mostOfFile = 16 << 20

func newFiles(p place.Place, s Settings) Sink { return &files{p: p, s: s} }

func (*files) Linger() time.Duration { return gather }

func (f *files) Close() error { return f.p.Close() }

// layout is how moments begin names: digits, so that names are in the order of the moments.
const layout = "20060102150405.000000000"

func stamp(at uint64) (folder, name string) {
	t := base.Timestamp(at).Time()
	s := t.Format(layout)
	return t.Format("2006-01-02"), s[:14] + s[15:]
}

// Reached implements Sink.
func (f *files) Reached(at uint64) { f.mark = at }

// Emit implements Sink.
func (f *files) Emit(ctx context.Context, batch []Message) error {
	var order []string
	of := map[string][]byte{}
	for i := range batch {
		m := &batch[i]
		b, ok := of[m.Topic]
		if !ok {
			order = append(order, m.Topic)
		}
		of[m.Topic] = append(append(b, m.Value...), '\n')
		if len(of[m.Topic]) >= mostOfFile {
			if err := f.write(ctx, m.Topic, of[m.Topic]); err != nil {
				return err
			}
			of[m.Topic] = of[m.Topic][:0]
		}
	}
	for _, t := range order {
		if len(of[t]) > 0 {
			if err := f.write(ctx, t, of[t]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *files) write(ctx context.Context, topic string, b []byte) error {
	f.seq++
	folder, at := stamp(f.mark)
	name := fmt.Sprintf("%s/%s-%s-%06d-%s.ndjson", folder, at, f.s.Name, f.seq, topic)
	switch f.s.Compression {
	case "gzip":
		name += ".gz"
	case "zstd":
		name += ".zst"
	}
	b, err := compress(b, f.s.Compression)
	if err != nil {
		return err
	}
	if err := f.p.Write(ctx, name, b); err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	return nil
}

// Mark implements Sink.
func (f *files) Mark(ctx context.Context, _ []string, m Mark) error {
	folder, at := stamp(m.At)
	name := folder + "/" + at + ".RESOLVED"
	if err := f.p.Write(ctx, name, m.Value); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("file %s: %w", name, err)
	}
	return nil
}
