package doctor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// openFiles is how many files a process may open.
func openFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Cur
}

// memory is that of the machine, or of the cgroup if it has less.
func memory() int64 {
	var m int64
	var si syscall.Sysinfo_t
	if syscall.Sysinfo(&si) == nil {
		m = int64(uint64(si.Totalram) * uint64(si.Unit))
	}
	b, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return m
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (m == 0 || n < m) {
		m = n
	}
	return m
}

// free is how many bytes a user may still write in a folder.
func free(dir string) int64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}
