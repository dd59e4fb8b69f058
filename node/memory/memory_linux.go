package memory

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ofMachine is the memory of the machine, or of the control group if that is less; 0 if
// unknown.
func ofMachine() int64 {
	var m int64
	var si syscall.Sysinfo_t
	if syscall.Sysinfo(&si) == nil {
		m = int64(uint64(si.Totalram) * uint64(si.Unit))
	}
	for _, f := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (m == 0 || n < m) {
			m = n
		}
	}
	return m
}
