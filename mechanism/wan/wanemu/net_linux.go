package wanemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Net is a running network.
type Net struct {
	sites  map[string]*Inside
	router *exec.Cmd
	stderr bytes.Buffer

	mu  sync.Mutex // one question to the router at a time
	in  io.WriteCloser
	out *bufio.Reader
}

// Inside is a site of a running network, with a thread that lives in its namespace.
type Inside struct {
	Site
	do   chan func()
	once sync.Once
}

// Check says what keeps this machine from emulating networks.
func Check() error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("run it as root: it makes network namespaces"))
	}
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		errs = append(errs, fmt.Errorf("it needs TUN devices (modprobe tun; a container needs --device /dev/net/tun): %w", err))
	} else {
		f.Close()
	}
	if len(errs) > 0 {
		return fmt.Errorf("cannot emulate a network: %w", errors.Join(errs...))
	}
	return nil
}

// Start makes the sites and connects them.
func Start(c Config) (_ *Net, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	if err := Check(); err != nil {
		return nil, err
	}
	n := &Net{sites: map[string]*Inside{}}
	var devices []*os.File
	defer func() {
		for _, f := range devices { // the router has its own
			f.Close()
		}
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	for _, s := range c.Sites {
		in, dev, err := newInside(s, &c)
		if err != nil {
			return nil, fmt.Errorf("site %s: %w", s.Name, err)
		}
		n.sites[s.Name] = in
		devices = append(devices, dev)
	}
	return n, n.startRouter(&c, devices)
}

func (n *Net) startRouter(c *Config, devices []*os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	conf, err := json.Marshal(c)
	if err != nil {
		return err
	}
	cmd := exec.Command(self, RouterArg, string(conf))
	cmd.ExtraFiles, cmd.Stderr = devices, &n.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	if n.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.router, n.out = cmd, bufio.NewReader(out)
	if _, err := n.ask("stats"); err != nil { // it runs
		return err
	}
	return nil
}

// newInside makes a namespace on a fresh thread, which stays in it and is never used for anything
// else.
func newInside(s Site, c *Config) (*Inside, *os.File, error) {
	in := &Inside{Site: s, do: make(chan func())}
	var dev *os.File
	made := make(chan error)
	go onOwnThread(func() {
		var err error
		dev, err = enterNew(s, c)
		made <- err
		if err != nil {
			return
		}
		for f := range in.do {
			f()
		}
	})
	if err := <-made; err != nil {
		return nil, nil, err
	}
	return in, dev, nil
}

// onOwnThread calls f on a thread that nothing else uses and that ends after f: the kernel then
// ends the processes that f started. The first thread of a process will not do, as it never
// ends; nor may it leave the namespace that the process is seen in.
func onOwnThread(f func()) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { // on another thread, while this one is held
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// enterNew moves the calling thread into a new namespace with a device of the site's address.
func enterNew(s Site, c *Config) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("new network namespace: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	err = configure(fd, s, c.MTU)
	if c.Congestion != "" && err == nil {
		// The file shows the namespace of the thread that opens it.
		err = os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(c.Congestion), 0)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

func configure(tun int, s Site, mtu int) error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	var errs []error
	set := func(fd int, what, dev string, req uint, fill func(*unix.Ifreq)) {
		ifr, err := unix.NewIfreq(dev)
		if err == nil {
			fill(ifr)
			err = unix.IoctlIfreq(fd, req, ifr)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", what, dev, err))
		}
	}
	up := func(i *unix.Ifreq) { i.SetUint16(unix.IFF_UP | unix.IFF_RUNNING) }
	kind := func(i *unix.Ifreq) { i.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR) }
	set(tun, "kind", device, unix.TUNSETIFF, kind)
	if err := unix.IoctlSetInt(tun, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6); err != nil {
		errs = append(errs, fmt.Errorf("segmentation offload: %w", err))
	}
	set(sock, "flags", "lo", unix.SIOCSIFFLAGS, up)
	set(sock, "address", device, unix.SIOCSIFADDR, func(i *unix.Ifreq) { setAddr(i, s.IP) })
	set(sock, "mask", device, unix.SIOCSIFNETMASK, func(i *unix.Ifreq) { setAddr(i, "255.255.0.0") })
	set(sock, "MTU", device, unix.SIOCSIFMTU, func(i *unix.Ifreq) { i.SetUint32(uint32(mtu)) })
	set(sock, "queue length", device, unix.SIOCSIFTXQLEN, func(i *unix.Ifreq) { i.SetUint32(10000) })
	set(sock, "flags", device, unix.SIOCSIFFLAGS, up)
	return errors.Join(errs...)
}

// device is the site's end of the network.
const device = "wan0"

func setAddr(i *unix.Ifreq, ip string) {
	_ = i.SetInet4Addr(net.ParseIP(ip).To4()) // Config.fill has checked it
}

// Site returns the site of that name, nil if there is none.
func (n *Net) Site(name string) *Inside { return n.sites[name] }

// Do runs f on a thread inside the site: sockets it makes and processes it starts belong there.
func (in *Inside) Do(f func()) {
	done := make(chan struct{})
	in.do <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Start starts a process inside the site, in a process group of its own, so
// that Ctrl-C is for the parent alone; it is asked to end when the parent dies.
func (in *Inside) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGTERM
	var err error
	in.Do(func() { err = cmd.Start() })
	return err
}

// Dial connects from inside the site to an address, which must be numeric.
func (in *Inside) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var conn net.Conn
	var err error
	in.Do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, addr) })
	return conn, err
}

// Control changes the network while it runs:
//
//	set A B delay=45ms jitter=2ms loss=1% mbit=100   (set1: one direction only)
//	cut A B   (cut1: one direction only; * is any region)
//	heal
func (n *Net) Control(line string) error {
	answer, err := n.ask(line)
	if err == nil && answer != "ok" {
		err = fmt.Errorf("%s: %s", line, answer)
	}
	return err
}

// Stats says how many packets each directed pair of regions carried and lost, and how late the
// router was.
func (n *Net) Stats() (string, error) { return n.ask("stats") }

// ask sends one line; the answer ends with an empty one.
func (n *Net) ask(line string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := fmt.Fprintln(n.in, line); err != nil {
		return "", fmt.Errorf("the router has ended: %w", err)
	}
	var lines []string
	for {
		l, err := n.out.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("the router has ended: %w", err)
		}
		if l = strings.TrimSuffix(l, "\n"); l == "" {
			return strings.Join(lines, "\n"), nil
		}
		lines = append(lines, l)
	}
}

// Close ends the router and leaves the namespaces; those with processes inside live on, cut off,
// until these end.
func (n *Net) Close() error {
	for _, in := range n.sites {
		in.once.Do(func() { close(in.do) })
	}
	if n.router == nil {
		return nil
	}
	n.in.Close()
	kill := time.AfterFunc(5*time.Second, func() { _ = n.router.Process.Kill() })
	defer kill.Stop()
	err := n.router.Wait()
	n.router = nil
	if err != nil {
		return fmt.Errorf("router: %w\n%s", err, bytes.TrimSpace(n.stderr.Bytes()))
	}
	return nil
}
