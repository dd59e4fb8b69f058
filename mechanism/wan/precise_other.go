//go:build !linux

package wan

import "time"

type kernelTimer struct{}

func newKernelTimer(chan<- struct{}) *kernelTimer { return nil }
func (*kernelTimer) arm(time.Duration)            {}
func (*kernelTimer) close()                       {}
