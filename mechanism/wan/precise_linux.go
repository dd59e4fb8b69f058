package wan

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimer wakes a goroutine at a time, to about 50 us: the runtime's own
// timers wait in epoll, whose timeout counts milliseconds, while a timerfd is
// an event like any other there. nil does nothing.
type kernelTimer struct {
	f  *os.File
	fd int
}

func newKernelTimer(wake chan<- struct{}) *kernelTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil // no worse than without
	}
	k := &kernelTimer{f: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	go func() {
		var b [8]byte
		for {
			if _, err := k.f.Read(b[:]); err != nil {
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return k
}

// arm sets the next wake-up; only one goroutine may call it, and not after close.
func (k *kernelTimer) arm(d time.Duration) {
	if k == nil {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	unix.TimerfdSettime(k.fd, 0, &spec, nil)
}

func (k *kernelTimer) close() {
	if k != nil {
		k.f.Close()
	}
}
