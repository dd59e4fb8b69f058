package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// bank moves money between accounts. No transfer changes the total, and no balance gets negative.
type bank struct {
	opts BankOptions
	seed uint64

	keys  keyRanges
	total whole
}

const (
	bankLocal = iota
	bankCross
	bankLookup
	bankAudit
)

func (b *bank) kinds() []string {
	return []string{"transfer-local", "transfer-cross", "lookup", "audit"}
}

func (b *bank) tables() []string { return []string{"accounts"} }

// create makes the accounts; each remembers what it was opened with, so that a check needs no
// options.
func (b *bank) create(ctx context.Context, s *session) error {
	err := s.exec(ctx, "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, opened BIGINT NOT NULL, "+
		"PRIMARY KEY (id))")
	if err != nil {
		return fmt.Errorf("creating the bank's table: %w", err)
	}
	return nil
}

func (b *bank) load(l *loader) {
	loadRanges(l, b.opts.Accounts, "accounts (id, balance, opened)", func(_ *rand.Rand, id int) []any {
		return []any{id, b.opts.Balance, b.opts.Balance}
	})
}

func (b *bank) open(ctx context.Context, s *session, regions int) error {
	n, err := countRows(ctx, s, "accounts", "bank")
	if err != nil {
		return err
	}
	if n/regions < 2 {
		return fmt.Errorf("%d accounts are too few for %d regions: run init with more", n, regions)
	}
	var total whole
	if err := s.row(ctx, []any{&total}, "SELECT SUM(opened) FROM accounts"); err != nil {
		return err
	}
	b.total = total
	b.keys, err = newKeyRanges(n, regions, b.opts.Theta)
	return err
}

func (b *bank) client(region, i, _ int) client {
	return &bankClient{b: b, rng: newRand(b.seed, 0xba4c, uint64(region), uint64(i)), region: region}
}

type bankClient struct {
	b      *bank
	rng    *rand.Rand
	region int
}

func (c *bankClient) next() txn {
	b, rng := c.b, c.rng
	switch u := rng.Float64(); {
	case u < b.opts.Lookups:
		id := b.keys.draw(rng, c.region)
		return txn{kind: bankLookup, single: true, run: func(ctx context.Context, s *session) error {
			var balance int64
			return s.row(ctx, []any{&balance}, "SELECT balance FROM accounts WHERE id = ?", id)
		}}
	case u < b.opts.Lookups+b.opts.Audits:
		return txn{kind: bankAudit, single: true, run: b.audit}
	}
	t := txn{kind: bankLocal}
	region := c.region
	if n := len(b.keys.zipfs); n > 1 && chance(rng, b.opts.Cross) {
		t.kind, region = bankCross, other(rng, c.region, n)
	}
	from := b.keys.draw(rng, c.region)
	to := b.keys.drawOther(rng, region, []int{from})
	if rng.IntN(2) == 0 {
		from, to = to, from
	}
	amount := int64(between(rng, 1, 100))
	t.run = func(ctx context.Context, s *session) error { return transfer(ctx, s, from, to, amount) }
	return t
}

// transfer locks both accounts in the order of their numbers and moves what the payer has, at most
// amount.
func transfer(ctx context.Context, s *session, from, to int, amount int64) error {
	balance := map[int]int64{}
	for _, id := range []int{min(from, to), max(from, to)} {
		var n int64
		if err := s.row(ctx, []any{&n}, "SELECT balance FROM accounts WHERE id = ? FOR UPDATE", id); err != nil {
			return err
		}
		balance[id] = n
	}
	amount = min(amount, balance[from])
	for _, id := range []int{min(from, to), max(from, to)} {
		n := balance[id] + amount
		if id == from {
			n = balance[id] - amount
		}
		if err := s.exec(ctx, "UPDATE accounts SET balance = ? WHERE id = ?", n, id); err != nil {
			return err
		}
	}
	return nil
}

// audit sums all balances in one statement, at any time. A wrong total is an error of the run.
func (b *bank) audit(ctx context.Context, s *session) error {
	var total whole
	if err := s.row(ctx, []any{&total}, "SELECT SUM(balance) FROM accounts"); err != nil {
		return err
	}
	if total != b.total {
		return fmt.Errorf("the audit found a total of %d instead of %d", total, b.total)
	}
	return nil
}

func (b *bank) check(ctx context.Context, s *session) ([]CheckResult, error) {
	var balance, opened whole
	var accounts, negative int
	err := inTransaction(ctx, s, func() error {
		var err error
		if accounts, err = countRows(ctx, s, "accounts", "bank"); err != nil {
			return err
		}
		err = s.row(ctx, []any{&balance, &opened}, "SELECT SUM(balance), SUM(opened) FROM accounts")
		if err != nil {
			return err
		}
		return s.row(ctx, []any{&negative}, "SELECT COUNT(*) FROM accounts WHERE balance < 0")
	})
	return []CheckResult{
		{Name: "total", Description: "the sum of all balances is what the accounts were opened with", OK: balance == opened,
			Detail: fmt.Sprintf("%d of %d in %d accounts", balance, opened, accounts)},
		{Name: "overdrawn", Description: "no balance is negative", OK: negative == 0,
			Detail: fmt.Sprintf("%d accounts are", negative)},
	}, err
}
