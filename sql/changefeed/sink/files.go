package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/changefeed/avro"
)

// files writes messages as lines of JSON or CSV, or as files of Avro. A file is named by what had
// been reached when it was written, so that in the order of names all messages up to a mark are in
// files before the mark's:
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
	of := map[string]*gathered{}
	for i := range batch {
		m := &batch[i]
		g := of[m.Topic]
		if g == nil {
			g = &gathered{head: m.Head}
			of[m.Topic], order = g, append(order, m.Topic)
		}
		if g.head != m.Head || g.size >= mostOfFile {
			if err := f.write(ctx, m.Topic, g); err != nil {
				return err
			}
			*g = gathered{head: m.Head}
		}
		g.values = append(g.values, m.Value)
		g.size += len(m.Value) + 1
	}
	for _, t := range order {
		if err := f.write(ctx, t, of[t]); err != nil {
			return err
		}
	}
	return nil
}

// gathered are the messages of a file.
type gathered struct {
	head   string
	values [][]byte
	size   int
}

// bytes is the file, and how its name ends.
func (f *files) bytes(g *gathered) (b []byte, ext string, err error) {
	if f.s.Encoding == "avro" {
		b, err = avro.File(g.head, g.values, f.s.Compression) // it compresses blocks by itself
		return b, ".avro", err
	}
	ext = ".ndjson"
	if f.s.Encoding == "csv" {
		ext = ".csv"
		b = append([]byte(g.head), '\n')
	}
	for _, v := range g.values {
		b = append(append(b, v...), '\n')
	}
	switch f.s.Compression {
	case "gzip":
		ext += ".gz"
	case "zstd":
		ext += ".zst"
	}
	b, err = compress(b, f.s.Compression)
	return b, ext, err
}

func (f *files) write(ctx context.Context, topic string, g *gathered) error {
	b, ext, err := f.bytes(g)
	if err != nil {
		return err
	}
	f.seq++
	folder, at := stamp(f.mark)
	name := fmt.Sprintf("%s/%s-%s-%06d-%s%s", folder, at, f.s.Name, f.seq, topic, ext)
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
