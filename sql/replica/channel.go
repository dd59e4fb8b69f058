package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/follow"
)

// table has the channels, by their names in lower case.
var table = base.MakeTableID(13, 0)

func span() base.Span {
	p := base.IndexPrefix(base.MetaShard, table, 0, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

func keyOf(channel string) base.Key {
	return append(span().Start.Clone(), strings.ToLower(channel)...)
}

// account is whose rights a channel has.
type account struct {
	User string `json:"user"`
	Host string `json:"host"`
}

// failure is why a channel does not go on.
type failure struct {
	Number uint16    `json:"number"`
	Text   string    `json:"text"`
	When   time.Time `json:"when"`
}

// failed is an error, now.
func failed(err error) *failure {
	n := follow.NumberOf(err)
	if n == 0 {
		n = errReplica
	}
	return &failure{Number: n, Text: err.Error(), When: time.Now().UTC().Truncate(time.Second)}
}

// errReplica is MySQL's number of what stops a replica and has no other: ER_REPLICA_FATAL_ERROR.
const errReplica = 1593

// channel is what is followed, as the meta shard keeps it.
type channel struct {
	Name     string `json:"name"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	User     string `json:"user"`
	Password string `json:"password"`
	// SSL: the connection is encrypted; Verify: and the source proves who it is.
	SSL    bool `json:"ssl,omitempty"`
	Verify bool `json:"verify,omitempty"`
	// Retry is how many seconds pass between two tries to connect, Retries how many there are.
	Retry   uint64 `json:"retry"`
	Retries uint64 `json:"retries"`
	// At is up to where the cluster has everything.
	At follow.Position `json:"at"`
	// Job follows the channel, in its Term; 0: it is stopped.
	Job     uint64  `json:"job,omitempty"`
	Term    uint64  `json:"term,omitempty"`
	Account account `json:"account"`
	// IO and SQL are why it stopped: the source's log could not be read, or not be applied.
	IO  *failure `json:"io,omitempty"`
	SQL *failure `json:"sql,omitempty"`
}

// What a new channel has.
const (
	defaultPort    = 3306
	defaultRetry   = 60
	defaultRetries = 86400
	firstOffset    = 4 // of the events of a file
)

func newChannel(name string) *channel {
	return &channel{Name: name, Port: defaultPort, Retry: defaultRetry, Retries: defaultRetries, At: follow.Position{Off: firstOffset}}
}

// what is the channel in words, without its password.
func (c *channel) what() string {
	s := fmt.Sprintf("%s@%s:%d", c.User, c.Host, c.Port)
	if c.Name != "" {
		s += " FOR CHANNEL '" + c.Name + "'"
	}
	return s
}

// source is the server that the channel follows.
func (c *channel) source() follow.Source {
	src := follow.Source{Host: c.Host, Port: c.Port, User: c.User, Password: c.Password}
	switch {
	case c.SSL && c.Verify:
		src.TLS = follow.Verified
	case c.SSL:
		src.TLS = follow.Encrypted
	}
	return src
}

// load reads a channel; nil if there is none.
func load(ctx context.Context, t kv.Txn, name string, lock kv.LockMode) (*channel, error) {
	rows, err := t.Get(ctx, []base.Key{keyOf(name)}, lock)
	if err != nil || rows[0].Value == nil {
		return nil, err
	}
	return decode(&rows[0])
}

func decode(row *kv.Row) (*channel, error) {
	c := new(channel)
	if err := json.Unmarshal(row.Value, c); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "the replication channel at %s: %v", row.Key, err)
	}
	return c, nil
}

func (c *channel) save(t kv.Txn) error {
	v, err := json.Marshal(c)
	if err == nil {
		t.Put(keyOf(c.Name), v, 0)
	}
	return err
}

// change changes a channel in a transaction of its own. Without an error it is written.
func change(ctx context.Context, db kv.DB, name string, fn func(t kv.Txn, c *channel) error) (c *channel, err error) {
	_, err = kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		if c, err = load(ctx, t, name, kv.LockExclusive); err != nil {
			return err
		}
		if c == nil {
			return errNoChannel(name)
		}
		if err := fn(t, c); err != nil {
			return err
		}
		return c.save(t)
	})
	return c, err
}

// list reads all channels, in the order of their names.
func list(ctx context.Context, db kv.DB) (out []*channel, err error) {
	t := db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.WithoutCancel(ctx))
	for req := (&kv.ScanRequest{Spans: []base.Span{span()}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for i := range res.Rows {
			c, err := decode(&res.Rows[i])
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		req = res.Next
	}
	slices.SortFunc(out, func(a, b *channel) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Errors as MySQL words them.

func errNoChannel(name string) error {
	if name == "" {
		return errNotReplica()
	}
	return mysql.NewSQLError(3074, "HY000", "Replica channel '%s' does not exist.", name)
}

func errNotReplica() error {
	return mysql.NewSQLError(1200, "HY000", "The server is not configured as replica; fix with CHANGE REPLICATION SOURCE TO")
}

func errRunning(name string) error {
	return mysql.NewSQLError(3081, "HY000", "This operation cannot be performed with running replication threads; run STOP REPLICA "+
		"FOR CHANNEL '%s' first", name)
}

func errSeveral() error {
	return mysql.NewSQLError(3079, "HY000", "Multiple channels exist on the replica. Please provide channel name as an argument.")
}
