// Package tempfile has the temporary files of statements. They have no names in their directory, so
// that they go away with the process. Nobody waits for a disk that stands still: a statement that
// has ended leaves its calls to the operating system to themselves.
package tempfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// File is a temporary file. It is used by one goroutine at a time.
type File struct {
	ctx context.Context
	f   *os.File
}

// Create makes a file in a directory, empty for the system's. What the file does ends with ctx,
// with the error of that.
func Create(ctx context.Context, dir string) (*File, error) {
	made := make(chan *os.File, 1)
	err := calls.await(ctx, func() error {
		f, err := os.CreateTemp(dir, "godwit-spill-")
		if err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		if ctx.Err() != nil {
			return f.Close() // nobody waits any more; else the collector closes it
		}
		made <- f
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	select {
	case f := <-made:
		if err == nil {
			return &File{ctx, f}, nil
		}
		aside.close(f)
	default:
	}
	return nil, fmt.Errorf("a file for what does not fit into memory: %w", err)
}

// Write implements io.Writer. After an error p may still be read: it must not be used again.
func (f *File) Write(p []byte) (n int, err error) {
	err = f.await(func(file *os.File) (int, error) { return file.Write(p) }, &n)
	return n, err
}

// ReadAt implements io.ReaderAt. After an error of the context p may still be written to: it must
// not be used again.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.await(func(file *os.File) (int, error) { return file.ReadAt(p, off) }, &n)
	return n, err
}

func (f *File) await(do func(*os.File) (int, error), n *int) error {
	file, done := f.f, make(chan int, 1)
	err := calls.await(f.ctx, func() error {
		n, err := do(file)
		done <- n
		return err
	})
	select {
	case *n = <-done:
	default: // it was left
	}
	return err
}

// Close removes the file, aside.
func (f *File) Close() error {
	aside.close(f.f)
	return nil
}

// mostLeft is how many calls that nobody waits for may be under way. Of one more the end is
// awaited, so that a disk that stands still keeps no more memory and threads than these.
const mostLeft = 64

// leaver waits for calls, and counts those that are left to themselves.
type leaver struct{ left atomic.Int64 }

// calls are those of this process.
var calls leaver

// Waiting is how many temporary files of this process wait to be closed and how many calls of ended
// statements are under way, and most how many there may be.
func Waiting() (n, most int) {
	aside.mu.Lock()
	defer aside.mu.Unlock()
	return len(aside.files) + int(calls.left.Load()), mostClosing + mostLeft
}

// await calls f beside, and returns its error, or that of the context if this ends before.
func (l *leaver) await(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if l.left.Add(1) > mostLeft {
		l.left.Add(-1)
		<-done
		return ctx.Err()
	}
	go func() {
		<-done
		l.left.Add(-1)
	}()
	return ctx.Err()
}
