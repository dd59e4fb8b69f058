package named

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

func errorNumber(err error) int {
	var e *mysql.SQLError
	if errors.As(err, &e) {
		return e.Num
	}
	return 0
}

// TestWaits: who waits gets the lock when it is released, gives up in time, and can be interrupted.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		a, b := sql.NewBaseSession(), sql.NewBaseSession()
		for range 2 {
			if ok, err := l.Get(t.Context(), a, "X", 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if ok, err := l.Get(t.Context(), b, "x", 0); ok || err != nil {
			t.Errorf("without waiting: %v %v", ok, err)
		}
		begin := time.Now()
		if ok, err := l.Get(t.Context(), b, "x", 3*time.Second); ok || err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %v %v", time.Since(begin), ok, err)
		}
		killed := errors.New("killed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(killed) })
		if _, err := l.Get(ctx, b, "x", -1); !errors.Is(err, killed) {
			t.Errorf("interrupted: %v", err)
		}
		got := make(chan bool, 1)
		go func() {
			ok, err := l.Get(t.Context(), b, "x", -1)
			got <- ok && err == nil
		}()
		synctest.Wait()
		if mine, known, _ := l.Release(a, "x"); !mine || !known {
			t.Error("a lock that was got twice")
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("it was got twice, and released once")
		}
		if mine, known, _ := l.Release(b, "x"); mine || !known {
			t.Error("another one's lock was released")
		}
		if n := l.ReleaseAll(a); n != 1 || !<-got {
			t.Errorf("%d locks", n)
		}
		if n := l.ReleaseAll(b); n != 1 {
			t.Errorf("%d locks", n)
		}
		if _, known, _ := l.Release(b, "x"); known {
			t.Error("there is a lock that nobody holds")
		}
		if len(l.by)+len(l.held)+len(l.waits) > 0 {
			t.Errorf("left over: %v %v %v", l.by, l.held, l.waits)
		}
	})
}

// TestDeadlock: a wait that would close a cycle is an error.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var s [3]sql.Session
		done := make(chan error, 3)
		for i := range s {
			s[i] = sql.NewBaseSession()
			if _, err := l.Get(t.Context(), s[i], fmt.Sprint(i), 0); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			go func() {
				_, err := l.Get(t.Context(), s[i], fmt.Sprint(i+1), -1)
				done <- err
			}()
		}
		synctest.Wait()
		if _, err := l.Get(t.Context(), s[2], "0", -1); errorNumber(err) != 3058 {
			t.Errorf("a cycle: %v", err)
		}
		l.ReleaseAll(s[2])
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.ReleaseAll(s[1])
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestBounds: names are short, and a session holds a bounded number of locks.
func TestBounds(t *testing.T) {
	l := New()
	a := sql.NewBaseSession()
	long := make([]byte, nameLength+1)
	for i := range long {
		long[i] = 'x'
	}
	for _, name := range []string{"", string(long), "x" + strings.Repeat("é", nameLength)} {
		if _, err := l.Get(t.Context(), a, name, 0); errorNumber(err) != 3057 || !utf8.ValidString(err.Error()) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for i := range mostHeld {
		if _, err := l.Get(t.Context(), a, fmt.Sprint(i), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Get(t.Context(), a, "one more", 0); errorNumber(err) != 1041 {
		t.Errorf("one more: %v", err)
	}
	if n := l.ReleaseAll(a); n != mostHeld || len(l.by) != 0 {
		t.Errorf("%d released, %d left", n, len(l.by))
	}
}
