package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Env
		ended := false
		if !e.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			ended = true
		}) {
			t.Fatal("work was not begun")
		}
		stuck := make(chan struct{})
		began := time.Now()
		e.CloseBackground(time.Second)
		if !ended {
			t.Error("closed while work was under way")
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("closing took %v", took)
		}
		if e.Go(func(context.Context) { t.Error("work was begun after the end") }) {
			t.Error("work counts as begun after the end")
		}

		var slow Env
		slow.Go(func(context.Context) { <-stuck })
		began = time.Now()
		slow.CloseBackground(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("closing took %v beside work that does not end", took)
		}
		close(stuck)
	})
}
