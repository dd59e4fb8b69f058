package tempfile

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestWriteLeft: a write that the system holds up ends with its statement.
func TestWriteLeft(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	f := &File{ctx, w}
	if n, err := f.Write(make([]byte, 100)); n != 100 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	said := make(chan error)
	go func() {
		_, err := f.Write(make([]byte, 1<<20)) // more than a pipe holds
		said <- err
	}()
	if n, err := r.Read(make([]byte, 1000)); n == 0 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	stop()
	if err := <-said; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that ends: %v", err)
	}
	_ = r.Close()
}

// TestCreate: a file has no name, is read as it was written, and is not made for a statement that
// has ended.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	f, err := Create(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if n, err := f.ReadAt(b, 1); n != 3 || err != nil || string(b) != "ell" {
		t.Errorf("%d bytes, %q, %v", n, b, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("files %v, %v", names, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := Create(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a file of a statement that has ended: %v", err)
	}
}

// TestLeftBounded: of calls that are held up no more are left than the bound; the end of one more
// is awaited.
func TestLeftBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l leaver
		may := make(chan struct{})
		// leave calls held with a statement that ends meanwhile.
		leave := func() error {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, stop)
			return l.await(ctx, func() error {
				<-may
				return nil
			})
		}
		for range mostLeft {
			if err := leave(); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if n := l.left.Load(); n != mostLeft {
			t.Fatalf("%d calls are left", n)
		}
		ended := false
		go func() {
			_ = leave()
			ended = true
		}()
		time.Sleep(time.Second)
		if ended {
			t.Error("more calls are left than the bound")
		}
		close(may)
		synctest.Wait()
		if n := l.left.Load(); n != 0 || !ended {
			t.Errorf("%d calls are left", n)
		}
	})
}
