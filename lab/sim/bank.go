package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
)

// bank moves money between accounts in all shards and regions. Every reader must see the same
// total.
type bank struct {
	*client
	accounts []string
	spans    []base.Span
}

const (
	bankStart  = 100 // of each account
	bankSpan   = "b"
	bankSpanTo = "c"
)

func newBank(ks *keyspace, cfg *Config) (accounts []string, make func(*client) func()) {
	grid := ks.grid("b", tableBank, cfg, (cfg.Keys+cfg.Shards*cfg.Regions-1)/(cfg.Shards*cfg.Regions))
	var spans []base.Span
	for _, s := range grid {
		sp, _, _ := ks.span(s, 0, -1)
		spans = append(spans, sp)
	}
	accounts = ks.all()
	return accounts, func(c *client) func() {
		b := &bank{client: c, accounts: accounts, spans: spans}
		return b.one
	}
}

// openBank gives every account its first money, in one transaction.
func openBank(c *client, accounts []string) bool {
	return c.run("open", kv.Options{}, func(t *tx) error {
		for _, a := range accounts {
			t.insert(a, fmt.Sprintf("%d#%s", bankStart, t.value()), c.ks.of(a).home)
		}
		return nil
	})
}

func balance(value string) (int64, error) {
	n, _, ok := strings.Cut(value, "#")
	if !ok {
		return 0, fmt.Errorf("no balance: %q", value)
	}
	return strconv.ParseInt(n, 10, 64)
}

// policy chooses a transaction's policy by a number from 0 to 99: noWait percent are NO_WAIT, a
// fifth is WAIT_DIE, and the others wait and detect deadlocks.
func policy(n, noWait int) kv.Policy {
	switch {
	case n < noWait:
		return kv.NoWait
	case n >= 80:
		return kv.WaitDie
	}
	return kv.Detect
}

func (b *bank) one() {
	opts := kv.Options{Relay: b.rng.IntN(100) < b.w.cfg.Relay}
	opts.Policy = policy(b.rng.IntN(100), b.w.cfg.NoWait)
	switch n := b.rng.IntN(10); {
	case n < 6:
		i := b.rng.IntN(len(b.accounts))
		from, to := b.accounts[i], b.accounts[(i+1+b.rng.IntN(len(b.accounts)-1))%len(b.accounts)]
		amount := int64(b.rng.IntN(20))
		b.run("transfer", opts, func(t *tx) error {
			vals, err := b.two(t, from, to)
			if err != nil || vals == nil {
				return err
			}
			for i, k := range []string{from, to} {
				have, err := balance(vals[i])
				if err != nil {
					b.w.fail("account %s of a bank that never closes one: %v", k, err)
					return errRollback
				}
				t.put(k, fmt.Sprintf("%d#%s", have+amount*int64(2*i-1), t.value()), 0)
			}
			return nil
		})
	case n < 9:
		b.run("total by snapshot", kv.Options{ReadOnly: true}, func(t *tx) error { return b.total(t, kv.LockNone) })
	default:
		b.run("total under locks", opts, func(t *tx) error { return b.total(t, kv.LockShared) })
	}
}

// two locks two accounts and reads them. vals is nil if others have locked one and the transfer is
// given up.
func (b *bank) two(t *tx, from, to string) (vals []string, err error) {
	if b.w.cfg.Impatient == 0 || b.rng.IntN(100) >= b.w.cfg.Impatient {
		return t.read(kv.LockExclusive, from, to)
	}
	patient, most := t.ctx, b.rng.IntN(3)
	defer func() { t.ctx = patient }()
	if b.rng.IntN(2) == 0 {
		t.ctx = kv.WithNoWait(patient)
		if vals, err = t.read(kv.LockExclusive, from, to); base.CodeOf(err) != base.CodeLocked {
			return vals, err
		}
	} else {
		rows, err := t.Get(kv.WithSkip(patient, most), []base.Key{t.c.ks.keys[from], t.c.ks.keys[to]}, kv.LockExclusive)
		if err != nil {
			return nil, err
		}
		if most == 1 && rows[0].Skipped != rows[1].Skipped { // the bound alone may be the reason
			return t.read(kv.LockExclusive, from, to)
		}
		if !rows[0].Skipped && !rows[1].Skipped {
			return t.read(kv.LockExclusive, from, to) // it holds both locks already
		}
	}
	b.w.locked.Add(1)
	if b.rng.IntN(2) == 0 { // give it up; the transaction commits with the locks it has
		return nil, nil
	}
	t.ctx = patient // try again in the same transaction, and wait
	return t.read(kv.LockExclusive, from, to)
}

func (b *bank) total(t *tx, lock kv.LockMode) error {
	rows, err := t.rows(kv.ScanRequest{Spans: b.spans, Lock: lock, Limit: 3 * b.rng.IntN(2)})
	if err != nil {
		return err
	}
	t.rec.Scan(bankSpan, bankSpanTo, rows)
	return nil
}

// checkBank judges the totals.
func checkBank(h *history.History, accounts int) *history.Violation {
	return history.BankTotal(h, bankSpan, bankSpanTo, int64(accounts*bankStart), balance)
}
