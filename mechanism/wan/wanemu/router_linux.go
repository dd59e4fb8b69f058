package wanemu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vnetHdr is the length of the virtio_net_hdr before each packet, which carries the kernel's large
// segments.
const vnetHdr = 10

// params of one directed region pair; control replaces them whole.
type params struct {
	delay  int64   // one-way ns
	jitter float64 // sigma ns, half-normal, order kept
	loss   float64
	bps    float64 // bytes per second, 0 = unlimited
	queue  int64   // bytes
	cut    bool
}

type packet struct {
	at  int64
	buf []byte
	cls uint8
}

// pipe: one directed region pair's bottleneck (shared by all site pairs of it).
type pipe struct {
	from, to                string
	p                       atomic.Pointer[params]
	freeAt                  int64 // when the serialiser is idle again
	rng                     *rand.Rand
	pkts, bytes, lost, tail atomic.Int64
}

// link: one directed site pair: a FIFO of packets in release order.
type link struct {
	pipe *pipe
	dst  int
	q    []packet
	head int
	last int64
	pos  int // index in heap, -1 if empty
}

type router struct {
	c       *Config
	sites   []Site
	fds     []int
	byIP    map[uint32]int
	links   [][]*link
	pipes   map[string]*pipe
	heap    []*link
	late    [64]atomic.Int64 // log2 histogram of release lateness in us/8
	lateMax atomic.Int64
	wrErr   atomic.Int64
	mu      sync.Mutex // control
	free    [3][][]byte
}

var classSize = [3]int{2048, 16384, 66 * 1024}

func newRouter(c *Config) *router {
	return &router{c: c, byIP: map[uint32]int{}, pipes: map[string]*pipe{}}
}

func ip4(s string) uint32 {
	b := netip.MustParseAddr(s).As4()
	return binary.BigEndian.Uint32(b[:])
}

func (r *router) pipe(a, b string) *pipe {
	k := a + ">" + b
	if p := r.pipes[k]; p != nil {
		return p
	}
	h := r.c.Seed
	for _, ch := range k {
		h = h*1099511628211 + uint64(ch)
	}
	p := &pipe{from: a, to: b, rng: rand.New(rand.NewPCG(r.c.Seed, h))}
	q := &params{delay: int64(r.c.rtt(a, b) / 2 * 1e6), queue: int64(r.c.QueueKB) * 1024}
	if a != b {
		q.jitter, q.loss, q.bps = r.c.Jitter*1e6, r.c.Loss, r.c.Mbit*1e6/8
	}
	p.p.Store(q)
	r.pipes[k] = p
	return p
}

func (r *router) addSite(s Site, fd int) {
	i := len(r.sites)
	r.sites = append(r.sites, s)
	r.fds = append(r.fds, fd)
	r.byIP[ip4(s.IP)] = i
	for j := 0; j < i; j++ {
		r.links[j] = append(r.links[j], &link{pipe: r.pipe(r.sites[j].Region, s.Region), dst: i, pos: -1})
	}
	row := make([]*link, i+1)
	for j := 0; j <= i; j++ {
		row[j] = &link{pipe: r.pipe(s.Region, r.sites[j].Region), dst: j, pos: -1}
	}
	r.links = append(r.links, row)
}

var began = time.Now()

func now() int64 { return int64(time.Since(began)) } // vDSO, monotonic

func (r *router) get(cls int) []byte {
	f := r.free[cls]
	if n := len(f); n > 0 {
		b := f[n-1]
		r.free[cls] = f[:n-1]
		return b
	}
	return make([]byte, classSize[cls])
}

func (r *router) put(b []byte, cls uint8) {
	if len(r.free[cls]) < 4096 {
		r.free[cls] = append(r.free[cls], b[:cap(b)])
	}
}

// loop: the whole data path, one OS thread.
func (r *router) loop() error {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(8)  // never wait for a P
	debug.SetGCPercent(-1) // pooled buffers; a GC stop would wait for non-RT threads
	debug.SetMemoryLimit(2 << 30)
	// precision, not correctness: see the lateness in stats
	_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // ns; the default is 50 us
	pfd := make([]unix.PollFd, len(r.fds))
	for i, fd := range r.fds {
		pfd[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	big := r.get(2)
	for {
		t := now()
		r.release(t)
		wait := int64(200e6)
		if len(r.heap) > 0 {
			wait = max(0, r.heap[0].q[r.heap[0].head].at-now())
		}
		ts := unix.NsecToTimespec(wait)
		// raw system calls: the Go scheduler never takes the P away from this
		// thread (otherwise a non-RT thread holding a P delays us by 100s of ms)
		pn, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&pfd[0])), uintptr(len(pfd)),
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("ppoll: %w", errno)
		}
		if errno != 0 || int(pn) <= 0 {
			continue
		}
		for i := range pfd {
			if pfd[i].Revents&unix.POLLIN == 0 {
				continue
			}
			for k := 0; k < 32; k++ { // bounded batch: due packets are not starved
				rn, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(r.fds[i]), uintptr(unsafe.Pointer(&big[0])),
					uintptr(len(big)))
				if errno != 0 || int(rn) <= vnetHdr {
					break
				}
				big = r.enqueue(i, big, int(rn))
			}
		}
	}
}

// enqueue takes ownership of buf if large and returns the buffer to read into next.
func (r *router) enqueue(src int, buf []byte, n int) []byte {
	ipb := buf[vnetHdr:n]
	if len(ipb) < 20 || ipb[0]>>4 != 4 {
		return buf
	}
	dst, ok := r.byIP[binary.BigEndian.Uint32(ipb[16:20])]
	if !ok {
		return buf
	}
	l := r.links[src][dst]
	p := l.pipe.p.Load()
	if p.cut {
		l.pipe.lost.Add(1)
		return buf
	}
	t := now()
	if p.loss > 0 && buf[1]&^0x80 == 1 { // VIRTIO_NET_HDR_GSO_TCPV4
		r.segment(l, p, t, buf[:n])
		return buf
	}
	if p.loss > 0 && l.pipe.rng.Float64() < p.loss {
		l.pipe.lost.Add(1)
		return buf
	}
	return r.push(l, p, t, buf, n)
}

func (r *router) push(l *link, p *params, t int64, buf []byte, n int) []byte {
	pi := l.pipe
	at := t
	if p.bps > 0 {
		if pi.freeAt < t {
			pi.freeAt = t
		}
		backlog := float64(pi.freeAt-t) * p.bps / 1e9
		if int64(backlog)+int64(n) > p.queue {
			pi.tail.Add(1)
			return buf
		}
		pi.freeAt += int64(float64(n-vnetHdr) / p.bps * 1e9)
		at = pi.freeAt
	}
	at += p.delay
	if p.jitter > 0 {
		j := pi.rng.NormFloat64() * p.jitter
		if j < 0 {
			j = -j
		}
		at += int64(j)
	}
	if at < l.last {
		at = l.last // FIFO
	}
	l.last = at
	pi.pkts.Add(1)
	pi.bytes.Add(int64(n - vnetHdr))
	var pk packet
	ret := buf
	switch {
	case n <= classSize[0]:
		b := r.get(0)
		copy(b, buf[:n])
		pk = packet{at, b[:n], 0}
	case n <= classSize[1]:
		b := r.get(1)
		copy(b, buf[:n])
		pk = packet{at, b[:n], 1}
	default:
		pk = packet{at, buf[:n], 2}
		ret = r.get(2)
	}
	l.q = append(l.q, pk)
	if l.pos < 0 {
		r.heapPush(l)
	}
	return ret
}

// segment splits a TSO super packet so that loss applies per MTU-sized segment.
func (r *router) segment(l *link, p *params, t int64, b []byte) {
	hlen := int(binary.LittleEndian.Uint16(b[2:4]))
	mss := int(binary.LittleEndian.Uint16(b[4:6]))
	ipb := b[vnetHdr:]
	ihl := int(ipb[0]&15) * 4
	if hlen == 0 || hlen > len(ipb) {
		hlen = ihl + int(ipb[ihl+12]>>4)*4
	}
	pay := ipb[hlen:]
	seq := binary.BigEndian.Uint32(ipb[ihl+4:])
	id := binary.BigEndian.Uint16(ipb[4:])
	flags := ipb[ihl+13]
	for off, i := 0, 0; off < len(pay); off, i = off+mss, i+1 {
		e := min(off+mss, len(pay))
		if l.pipe.rng.Float64() < p.loss {
			l.pipe.lost.Add(1)
			continue
		}
		s := r.get(2)
		n := vnetHdr + hlen + e - off
		copy(s, b[:vnetHdr+hlen])
		copy(s[vnetHdr+hlen:], pay[off:e])
		s[1] = 0                            // GSO_NONE
		s[2], s[3], s[4], s[5] = 0, 0, 0, 0 // hdr_len, gso_size
		q := s[vnetHdr:]
		binary.BigEndian.PutUint16(q[2:], uint16(hlen+e-off))
		binary.BigEndian.PutUint16(q[4:], id+uint16(i))
		binary.BigEndian.PutUint32(q[ihl+4:], seq+uint32(off))
		if e < len(pay) {
			q[ihl+13] = flags &^ 0x09 // FIN|PSH only on the last
		}
		q[10], q[11] = 0, 0
		binary.BigEndian.PutUint16(q[10:], ^fold(q[:ihl], 0))
		// partial checksum: pseudo header only, kernel finishes (NEEDS_CSUM kept)
		tl := uint32(hlen - ihl + e - off)
		c := fold(q[12:20], 6+tl)
		binary.BigEndian.PutUint16(q[ihl+16:], c)
		s[0] = 1 // NEEDS_CSUM
		binary.LittleEndian.PutUint16(s[6:], uint16(ihl))
		binary.LittleEndian.PutUint16(s[8:], 16)
		s = r.push(l, p, t, s, n)
		r.put(s, 2)
	}
}

func fold(b []byte, s uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

func (r *router) release(t int64) {
	for k := 0; len(r.heap) > 0 && k < 256; k++ {
		l := r.heap[0]
		pk := &l.q[l.head]
		if pk.at > t {
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(r.fds[l.dst]), uintptr(unsafe.Pointer(&pk.buf[0])),
			uintptr(len(pk.buf))); errno != 0 {
			r.wrErr.Add(1)
		}
		lt := (now() - pk.at) / 1000
		b := 0
		for v := lt; v > 0 && b < 63; v >>= 1 {
			b++
		}
		r.late[b].Add(1)
		if lt > r.lateMax.Load() {
			r.lateMax.Store(lt)
		}
		r.put(pk.buf, pk.cls)
		pk.buf = nil
		l.head++
		if l.head == len(l.q) {
			l.q, l.head = l.q[:0], 0
			r.heapPop()
		} else {
			if l.head > 1024 && l.head*2 > len(l.q) {
				n := copy(l.q, l.q[l.head:])
				clear(l.q[n:])
				l.q, l.head = l.q[:n], 0
			}
			r.down(0)
		}
	}
}

func (r *router) key(i int) int64 { l := r.heap[i]; return l.q[l.head].at }
func (r *router) heapPush(l *link) {
	r.heap = append(r.heap, l)
	i := len(r.heap) - 1
	l.pos = i
	for i > 0 && r.key(i) < r.key((i-1)/2) {
		r.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}
func (r *router) swap(i, j int) {
	r.heap[i], r.heap[j] = r.heap[j], r.heap[i]
	r.heap[i].pos, r.heap[j].pos = i, j
}
func (r *router) heapPop() {
	n := len(r.heap) - 1
	r.heap[0].pos = -1
	if n > 0 {
		r.heap[0] = r.heap[n]
		r.heap[0].pos = 0
	}
	r.heap = r.heap[:n]
	if n > 1 {
		r.down(0)
	}
}
func (r *router) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(r.heap) {
			return
		}
		if c+1 < len(r.heap) && r.key(c+1) < r.key(c) {
			c++
		}
		if r.key(c) >= r.key(i) {
			return
		}
		r.swap(i, c)
		i = c
	}
}
