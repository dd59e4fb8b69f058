package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// knobs are two settings of which low must not be above high.
type knobs struct {
	mu  sync.Mutex
	set map[string]string
}

func (k *knobs) values() (low, high int, err error) {
	v := map[string]string{"k.low": "1", "k.high": "9"}
	maps.Copy(v, k.set)
	low, e1 := strconv.Atoi(v["k.low"])
	high, e2 := strconv.Atoi(v["k.high"])
	return low, high, errors.Join(e1, e2)
}

func (k *knobs) List() []Setting {
	k.mu.Lock()
	defer k.mu.Unlock()
	low, high, _ := k.values()
	return []Setting{{"k.low", strconv.Itoa(low), "1", "lower"}, {"k.high", strconv.Itoa(high), "9", "upper"}}
}

func (k *knobs) Check(v map[string]string) error {
	low, high, err := (&knobs{set: v}).values()
	if err == nil && low > high {
		err = errors.New("k.low must not be above k.high")
	}
	return err
}

func (k *knobs) Apply(v map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = maps.Clone(v)
}

func TestClusterSettings(t *testing.T) {
	db := memkv.New(1, "eu", "us")
	s, c := startServer(t, db, func(c *Config) { c.Settings = &knobs{} })
	_, us := startServer(t, db.Gateway(2), func(c *Config) { c.Settings = &knobs{} })
	expect(t, c, "SHOW CLUSTER SETTINGS", "k.low|1|1|lower", "k.high|9|9|upper")
	exec(t, c, "SET CLUSTER SETTING k.low = 5")
	expect(t, c, "SHOW CLUSTER SETTING k.low", "k.low|5|1|lower")
	expectErr(t, c, 1105, "SET CLUSTER SETTING k.high = 4")
	expectErr(t, c, 1105, "SET CLUSTER SETTING k.high = much")
	expectErr(t, c, 1105, "SET CLUSTER SETTING k.other = 1")
	expectErr(t, c, 1105, "SHOW CLUSTER SETTING k.other")
	eventually(t, "the other gateway sees the setting",
		func() bool { return query(t, us, "SHOW CLUSTER SETTING k.low")[0] == "k.low|5|1|lower" })
	exec(t, us, "SET CLUSTER SETTING k.low = DEFAULT")
	expect(t, us, "SHOW CLUSTER SETTING k.low", "k.low|1|1|lower")
	exec(t, us, "SET CLUSTER SETTING k.high TO '4'")
	expect(t, us, "SHOW CLUSTER SETTING k.high", "k.high|4|9|upper")
	exec(t, c, "CREATE USER joe IDENTIFIED BY 'x'")
	joe := openDSN(t, "joe:x@tcp("+s.Addr().String()+")/")
	expectErr(t, joe, 1142, "SET CLUSTER SETTING k.low = 2")
}

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
