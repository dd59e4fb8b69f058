package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// diskMB is the size of a site's disk; only what is written takes room.
const diskMB = 768

// disk is a file system of a site's own, on a loop device.
type disk struct {
	site *site
	dir  string // where it is mounted, seen from the site only

	mu     sync.Mutex
	frozen bool
	slow   string // the control group of a slowed process
}

// checkDisks says what keeps this machine from making disks.
func checkDisks() error {
	var errs []error
	for _, name := range []string{"mkfs.ext4", "mount", "fsfreeze"} {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		errs = append(errs, fmt.Errorf("no loop devices: %w", err))
	}
	return errors.Join(errs...)
}

func newDisk(s *site, dir string) (*disk, error) {
	image := dir + ".img"
	f, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(diskMB<<20), f.Close(), os.Mkdir(dir, 0o755)); err != nil {
		return nil, err
	}
	s.in.Do(func() { err = privateMounts() })
	if err != nil {
		return nil, fmt.Errorf("a mount namespace: %w", err)
	}
	if err := s.tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", image); err != nil {
		return nil, err
	}
	// The loop device goes with the mount, and that with the site.
	if err := s.tool("mount", "-o", "loop,noatime", image, dir); err != nil {
		return nil, err
	}
	return &disk{site: s, dir: dir}, nil
}

// path of a file on the disk.
func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

// freeze has everything that writes to the disk wait.
func (d *disk) freeze() error {
	err := d.site.tool("fsfreeze", "--freeze", d.dir)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = d.frozen || err == nil
	return err
}

// thaw ends freeze.
func (d *disk) thaw() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen {
		return nil
	}
	d.frozen = false
	return d.site.tool("fsfreeze", "--unfreeze", d.dir)
}

const blockGroups, memoryGroups = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup/memory"

// checkSlow says why disks cannot be made slow here.
func checkSlow() error { return checkGroup(blockGroups, "blkio.throttle.write_iops_device") }

// checkMemory says why processes cannot be bounded here.
func checkMemory() error { return checkGroup(memoryGroups, "memory.limit_in_bytes") }

func checkGroup(dir, file string) error {
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return fmt.Errorf("needs that controller of cgroup v1: %w", err)
	}
	return nil
}

// limit makes a control group with one bound for the server of the site.
func (s *site) limit(groups, file, value string) (string, error) {
	dir := filepath.Join(groups, fmt.Sprintf("faults-%d-%s", os.Getpid(), s.name))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	pid := strconv.Itoa(s.process().cmd.Process.Pid)
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0),
		os.WriteFile(filepath.Join(dir, file), []byte(value), 0))
}

// unlimited moves the server out of a control group and removes it.
func (s *site) unlimited(dir string) error {
	if dir == "" {
		return nil
	}
	if !s.ended() {
		pid := strconv.Itoa(s.process().cmd.Process.Pid)
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"), []byte(pid), 0); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// slowDown lets the server write so many blocks a second.
func (d *disk) slowDown(perSecond int) error {
	var dev string
	var err error
	d.site.in.Do(func() { dev, err = deviceOf(d.dir) })
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow, err = d.site.limit(blockGroups, "blkio.throttle.write_iops_device", fmt.Sprintf("%s %d", dev, perSecond))
	return err
}

// quick ends slowDown.
func (d *disk) quick() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := d.slow
	d.slow = ""
	return d.site.unlimited(dir)
}

// fill leaves no room, and empty gives it back.
func (d *disk) fill() error {
	var err error
	d.site.in.Do(func() { err = writeAll(d.path("ballast")) })
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return fmt.Errorf("the disk takes more than there is: %w", err)
}

// writeAll writes a file until there is no room.
func writeAll(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) > 0; {
		_, err := f.Write(piece)
		if errors.Is(err, syscall.ENOSPC) && len(piece) > 4096 {
			piece = piece[:len(piece)/2] // what is left is smaller
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) empty() (err error) {
	d.site.in.Do(func() { err = os.Remove(d.path("ballast")) })
	return err
}

// free ends what would keep a process from ending.
func (d *disk) free() {
	if err := errors.Join(d.thaw(), d.quick()); err != nil {
		d.site.bed.logf("disk of %s: %v", d.site.name, err)
	}
}

func (d *disk) close() error { return d.site.tool("umount", "--lazy", d.dir) }
