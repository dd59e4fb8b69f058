package order

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Hand is what a goroutine sorts with: a comparison that no other goroutine uses, and a check as
// that of [Stable].
type Hand[T any] struct {
	Compare func(a, b T) int
	Check   func() error
}

// Help is a second goroutine's permission to compute.
type Help interface {
	// Keep reports whether it may go on.
	Keep() bool
	// End gives the permission back.
	End()
}

// Shared sorts as [Stable] does, and lets a second goroutine do a part of it: one sorts and merges
// pieces of so many rows, the other the next ones. lend is asked for its hand again and again, and
// returns no Help if there is none to be had; nobody sorts with that hand when Shared has returned.
// The order of the rows is the same, whoever sorts which piece.
func Shared[T any](rows []T, piece int, own Hand[T], lend func() (Hand[T], Help)) error {
	if len(rows) < 2*piece {
		return Stable(rows, own.Compare, own.Check)
	}
	in, out := rows, make([]T, len(rows))
	var jobs []job[T]
	for from := 0; from < len(rows); from += piece {
		part, room := in[from:min(from+piece, len(rows))], out[from:min(from+piece, len(rows))]
		jobs = append(jobs, func(h Hand[T]) error { return stable(part, room, h.Compare, h.Check) })
	}
	if err := share(jobs, own, lend); err != nil {
		return err
	}
	for width := piece; width < len(rows); width *= 2 {
		jobs = jobs[:0]
		for from := 0; from < len(rows); from += 2 * width {
			mid, end := min(from+width, len(rows)), min(from+2*width, len(rows))
			jobs = mergeJobs(jobs, out[from:end], in[from:mid], in[mid:end], piece)
		}
		if err := share(jobs, own, lend); err != nil {
			return err
		}
		in, out = out, in
	}
	if &in[0] != &rows[0] {
		copy(rows, in)
	}
	return nil
}

// job is a piece of the work.
type job[T any] func(h Hand[T]) error

// mergeJobs puts two sorted lists into one, piece by piece.
func mergeJobs[T any](jobs []job[T], out, a, b []T, piece int) []job[T] {
	for from := 0; from < len(out); from += piece {
		end := min(from+piece, len(out))
		jobs = append(jobs, func(h Hand[T]) error {
			i, k := split(from, a, b, h.Compare), split(end, a, b, h.Compare)
			return merge(out[from:end], a[i:k], b[from-i:end-k], h.Compare, h.Check)
		})
	}
	return jobs
}

// split is how many of the first n rows of two lists, merged, come from a. Equal rows of a come
// before those of b.
func split[T any](n int, a, b []T, compare func(a, b T) int) int {
	lo, hi := max(0, n-len(b)), min(n, len(a))
	for lo < hi {
		if i := (lo + hi) / 2; compare(a[i], b[n-i-1]) <= 0 {
			lo = i + 1
		} else {
			hi = i
		}
	}
	return lo
}

// errLeft ends a helper's job: the sort has failed meanwhile.
var errLeft = errors.New("order: the sort has ended")

// share does jobs, in any order, with a helper if there is one.
func share[T any](jobs []job[T], own Hand[T], lend func() (Hand[T], Help)) error {
	var (
		next     atomic.Int64
		left     atomic.Bool
		helpers  sync.WaitGroup
		failed   error
		panicked any
	)
	work := func(h Hand[T], keep func() bool) error {
		for keep() {
			n := int(next.Add(1)) - 1
			if n >= len(jobs) {
				break
			}
			if err := jobs[n](h); err != nil {
				return err
			}
		}
		return h.Check() // comparisons may have failed since it was called last
	}
	hand, help := lend()
	if help != nil {
		check := hand.Check
		hand.Check = func() error {
			if left.Load() {
				return errLeft
			}
			return check()
		}
		helpers.Go(func() {
			defer help.End()
			defer func() { panicked = recover() }()
			failed = work(hand, help.Keep)
		})
	}
	err := func() error {
		defer helpers.Wait() // also if a comparison panics
		defer left.Store(true)
		if err := work(own, func() bool { return true }); err != nil {
			return err
		}
		helpers.Wait()
		return nil
	}()
	if panicked != nil {
		panic(panicked)
	}
	if err == nil {
		err = failed
	}
	return err
}
