package spare

import (
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestLook: on the only processor, a goroutine that computes has what has come from the network go
// first. [runtime.Gosched] does not do that.
func TestLook(t *testing.T) {
	if theLook() == nil {
		t.Fatal("the file of the scheduler is not found")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const tries = 40
	for _, c := range []struct {
		name        string
		give        func()
		least, most int
	}{
		{"Look", Look, tries * 9 / 10, tries}, // now and then the scheduler has just looked by itself
		{"Gosched", runtime.Gosched, 0, tries / 2},
	} {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		from := conn(t, fds[0])
		var got atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for b := make([]byte, 1); ; got.Add(1) {
				if _, err := from.Read(b); err != nil {
					return
				}
			}
		}()
		served := 0
		for i := range int64(tries) {
			for got.Load() < i {
				runtime.Gosched()
			}
			Look() // the reader waits for the network
			if _, err := syscall.Write(fds[1], []byte{1}); err != nil {
				t.Fatal(err)
			}
			c.give()
			if got.Load() > i {
				served++
			}
		}
		if served < c.least || served > c.most {
			t.Errorf("%s: %d of %d were served at once, not %d to %d", c.name, served, tries, c.least, c.most)
		}
		_ = from.Close()
		<-ended
		_ = syscall.Close(fds[1])
	}
}

// conn makes a connection of a socket, which it takes over.
func conn(t *testing.T, fd int) net.Conn {
	t.Helper()
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
