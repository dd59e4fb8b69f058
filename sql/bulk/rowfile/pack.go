package rowfile

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The compressions of files.
const (
	Gzip = "gzip"
	Zstd = "zstd"
)

// mostWindow bounds what a zstd file may ask to be kept.
const mostWindow = 128 << 20

// extensions are what names of files end with.
var extensions = map[string]string{".gz": Gzip, ".gzip": Gzip, ".zst": Zstd, ".zstd": Zstd}

// kinds are those that names of files end with.
var kinds = map[string]Kind{".csv": CSV, ".tsv": CSV, ".txt": CSV, ".parquet": Parquet, ".parq": Parquet, ".sql": SQL}

// Guess tells by its name what a file is; kind is empty if it does not say.
func Guess(name string) (kind Kind, compression string) {
	name = strings.ToLower(name)
	ext := path.Ext(name)
	if compression = extensions[ext]; compression != "" {
		ext = path.Ext(strings.TrimSuffix(name, ext))
	}
	return kinds[ext], compression
}

// Extension is what the name of a file of a format ends with.
func (f *Format) Extension() string {
	ext := "." + string(f.Kind)
	if f.Kind == Parquet { // it has its compression inside
		return ext
	}
	switch f.Compression {
	case Gzip:
		ext += ".gz"
	case Zstd:
		ext += ".zst"
	}
	return ext
}

// plain reads a file as it was before it was compressed, from an offset.
func plain(ctx context.Context, in Source, compression string, offset int64) (io.ReadCloser, error) {
	if compression == "" {
		return in.From(ctx, offset)
	}
	raw, err := in.From(ctx, 0)
	if err != nil {
		return nil, err
	}
	r, err := unpacked(raw, compression)
	if err == nil && offset > 0 {
		if _, err = io.CopyN(io.Discard, r, offset); err == io.EOF {
			err = fmt.Errorf("the file is shorter than it was: it had %d bytes and more", offset)
		}
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return r, nil
}

// unpacked reads what was compressed. Close closes both.
func unpacked(raw io.ReadCloser, compression string) (io.ReadCloser, error) {
	buf := bufio.NewReaderSize(raw, 64<<10)
	switch compression {
	case Gzip:
		z, err := gzip.NewReader(buf)
		if err != nil {
			return nil, fmt.Errorf("the file is not compressed by gzip: %w", err)
		}
		return &both{z, func() error { _ = z.Close(); return raw.Close() }}, nil
	case Zstd:
		z, err := zstd.NewReader(buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecoderMaxMemory(1<<62))
		if err != nil {
			return nil, err
		}
		return &both{z, func() error { z.Close(); return raw.Close() }}, nil
	}
	return nil, fmt.Errorf("no compression is called %q: there are gzip and zstd", compression)
}

type both struct {
	io.Reader
	close func() error
}

func (b *both) Close() error { return b.close() }

// packing compresses what is written; nil Closer of none.
func packing(w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return open{w}, nil
}

type open struct{ io.Writer }

func (open) Close() error { return nil }
