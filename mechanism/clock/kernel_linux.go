package clock

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/godwitdb/godwit/base"
)

// kernelSource is the kernel's own estimate of how far its clock is off (adjtimex: maxerror). That
// grows by 500 ppm between the corrections of a time daemon, so it is asked for a few times a
// second and not with every reading.
type kernelSource struct {
	fallback time.Duration
	newest   atomic.Pointer[kernelAnswer]
	busy     atomic.Bool
}

type kernelAnswer struct {
	bound  time.Duration
	synced bool
	at     time.Time
}

const (
	kernelEvery = 100 * time.Millisecond
	// kernelAbsurd is a bound that is none: the kernel counts up to 16 s where nobody disciplines
	// the clock.
	kernelAbsurd = 10 * time.Second
)

func askKernel() (bound time.Duration, synced bool, err error) {
	var x unix.Timex
	state, err := unix.Adjtimex(&x)
	if err != nil {
		return 0, false, err
	}
	bound = time.Duration(x.Maxerror) * time.Microsecond
	return bound, state != unix.TIME_ERROR && x.Status&unix.STA_UNSYNC == 0 && bound < kernelAbsurd, nil
}

// NewKernel is the machine's clock with the kernel's bound, and fallback as the bound while the
// kernel says that nobody disciplines its clock. It is an error if the kernel cannot be asked.
func NewKernel(fallback time.Duration) (Source, error) {
	k := &kernelSource{fallback: fallback}
	bound, synced, err := askKernel()
	if err != nil {
		return nil, errors.Join(errors.New("the kernel does not say how good its clock is"), err)
	}
	k.newest.Store(&kernelAnswer{bound, synced, time.Now()})
	return k, nil
}

// KernelSynced reports whether the kernel's clock is disciplined and its bound known.
func KernelSynced() bool {
	_, synced, err := askKernel()
	return err == nil && synced
}

func (k *kernelSource) Read() (base.Timestamp, time.Duration) { return k.ReadAt(time.Now()) }

func (k *kernelSource) ReadAt(t time.Time) (base.Timestamp, time.Duration) {
	w := k.newest.Load()
	if t.Sub(w.at) > kernelEvery && k.busy.CompareAndSwap(false, true) {
		if bound, synced, err := askKernel(); err == nil {
			w = &kernelAnswer{bound, synced, t}
			k.newest.Store(w)
		}
		k.busy.Store(false)
	}
	if !w.synced {
		return base.FromTime(t), k.fallback
	}
	age := max(t.Sub(w.at), 0)
	return base.FromTime(t), w.bound + age/2000 // 500 ppm, as the kernel counts
}

// Name says where the bound comes from.
func (k *kernelSource) Name() string {
	if k.newest.Load().synced {
		return "kernel"
	}
	return "kernel (unsynchronised: fixed bound)"
}
