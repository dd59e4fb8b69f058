package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Part is one file of a bundle.
type Part struct {
	// Name of the file, with slashes.
	Name string
	// Make writes the file. It should end with its context; if it does not, it is left alone.
	Make func(ctx context.Context, w io.Writer) error
}

// ErrorsName is the last file of each bundle: which parts are missing or cut, and why, one a line.
// It is empty if there are none.
const ErrorsName = "errors.txt"

// Limits of a bundle.
type Limits struct {
	Time  time.Duration // for all parts, which are made at once
	Bytes int           // of each part
}

// errCut is why a part is cut.
var errCut = errors.New("it is cut: it would be longer than a part may be")

// Write makes all parts at once and writes them in their order. The error is that of w; those of
// parts are in the bundle.
func Write(ctx context.Context, w io.Writer, parts []Part, l Limits) error {
	ctx, cancel := context.WithTimeout(ctx, l.Time)
	defer cancel()
	t := tar.NewWriter(w)
	making := make([]<-chan made, len(parts))
	for i, p := range parts {
		making[i] = p.begin(ctx, l.Bytes)
	}
	var failed strings.Builder
	for i, p := range parts {
		body, err := await(ctx, making[i])
		if err != nil {
			fmt.Fprintf(&failed, "%s: %s\n", p.Name, Text(err.Error()))
		}
		if err != nil && len(body) == 0 {
			continue
		}
		if err := add(t, p.Name, body); err != nil {
			return err
		}
	}
	if err := add(t, ErrorsName, []byte(failed.String())); err != nil {
		return err
	}
	return t.Close()
}

func add(t *tar.Writer, name string, body []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(body)), ModTime: time.Now()}); err != nil {
		return err
	}
	if _, err := t.Write(body); err != nil {
		return err
	}
	return t.Flush()
}

// made is what a part has written, and why that is not all.
type made struct {
	body []byte
	err  error
}

// begin makes a part.
func (p Part) begin(ctx context.Context, most int) <-chan made {
	done := make(chan made, 1) // nobody may wait any more
	go func() {
		b := &bounded{most: most}
		err := p.Make(ctx, b)
		if b.cut {
			err = errCut
		}
		done <- made{b.body, err}
	}()
	return done
}

// await is what a part has come to. What was written before an error counts, unless the part goes
// on writing.
func await(ctx context.Context, done <-chan made) ([]byte, error) {
	select {
	case m := <-done:
		return m.body, m.err
	case <-ctx.Done():
	}
	select {
	case m := <-done:
		return m.body, m.err
	default:
		return nil, fmt.Errorf("it was not there in time: %w", context.Cause(ctx))
	}
}

// bounded is a buffer that takes so many bytes, and no more.
type bounded struct {
	body []byte
	most int
	cut  bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - len(b.body); len(p) > room {
		b.body, b.cut = append(b.body, p[:room]...), true
		return room, errCut
	}
	b.body = append(b.body, p...)
	return len(p), nil
}
