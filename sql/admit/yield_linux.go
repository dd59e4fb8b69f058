package admit

import "syscall"

// yieldThread lets the process's other threads have the processor first. The scheduler's
// [runtime.Gosched] does not look at the network, and while the collector marks no thread waits for
// it: those that would look wait for a processor, for a tick of the operating system, 4 ms.
func yieldThread() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
