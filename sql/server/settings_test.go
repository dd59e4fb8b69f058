package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// TestFollowAfterAnOutage: settings that could not be read are read a second after they can be, and
// then only when they change or once a minute.
func TestFollowAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{Env: &ddl.Env{Env: &table.Env{Env: &session.Env{DB: memkv.New(1, "eu"),
			Log: slog.New(slog.DiscardHandler)}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		began, outage, read := time.Now(), 5500*time.Millisecond, []time.Duration(nil)
		g.follow(ctx, "settings", func(context.Context) error {
			at := time.Since(began)
			if at < outage {
				return errors.New("no leader")
			}
			read = append(read, at)
			return nil
		})
		if len(read) != 3 || read[0] > outage+time.Second || read[1] != read[0]+time.Minute {
			t.Errorf("the outage lasted %v; read after %v", outage, read)
		}
	})
}
