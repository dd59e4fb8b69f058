package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"time"
)

const tpccDistricts = 10 // per warehouse, at any scale

// minScale leaves 1,000 items, 30 customers and orders, and 10 last names a district.
const minScale = 0.01

// The kinds, in the order of tpcc.kinds.
const (
	kindNewOrder = iota
	kindPayment
	kindOrderStatus
	kindDelivery
	kindStockLevel
)

// tpcc is TPC-C, revision 5.11. Numbers such as 2.4.1.5 are its clauses.
type tpcc struct {
	opts TPCCOptions
	seed uint64

	size    tpccSize
	nu      nuRand
	regions int
}

// tpccSize is the scale of a database: the full specification's, or a fraction of it.
type tpccSize struct {
	// customers (= orders) and last names are of one district
	warehouses, items, customers, lastNames int
}

func scaledSize(warehouses int, scale float64) tpccSize {
	n := func(full float64) int { return int(full*scale + 0.5) }
	return tpccSize{warehouses: warehouses, items: n(100_000), customers: n(3000), lastNames: n(1000)}
}

// firstUndelivered is the first order that is loaded undelivered, 2101 of 3000 (4.3.3.1).
func (s tpccSize) firstUndelivered() int { return s.customers - s.customers*3/10 + 1 }

// nuRand holds the parameters of NURand (2.1.6).
type nuRand struct {
	size                tpccSize
	aLast, aID, aItem   int
	cLast, cID, cItem   int
	cLastLoad, cLastRun int
}

// newNURand derives the constants C from the seed. For C_LAST, 2.1.6.1 bounds the distance between
// loading and running.
func newNURand(size tpccSize, seed uint64) nuRand {
	n := nuRand{size: size,
		aLast: nuA(size.lastNames, 1000, 255), aID: nuA(size.customers, 3000, 1023), aItem: nuA(size.items, 100_000, 8191)}
	rng := newRand(seed, 0x7bcc)
	n.cID, n.cItem = rng.IntN(n.aID+1), rng.IntN(n.aItem+1)
	// With C_load at most 128, C_load + delta stays within [0, 255].
	n.cLastLoad = rng.IntN(129)
	delta := between(rng, 65, 119)
	for delta == 96 || delta == 112 {
		delta = between(rng, 65, 119)
	}
	n.cLastRun = n.cLastLoad + delta
	n.cLast = n.cLastRun
	return n
}

// nuA scales the constant A with the range: the power of two, less one, nearest below the same
// share of it.
func nuA(n, full, a int) int {
	v := max(n*(a+1)/full, 1)
	return 1<<(bits.Len(uint(v))-1) - 1
}

func (n nuRand) draw(rng *rand.Rand, a, c, lo, hi int) int {
	return ((between(rng, 0, a)|between(rng, lo, hi))+c)%(hi-lo+1) + lo
}

func (n nuRand) customer(rng *rand.Rand) int { return n.draw(rng, n.aID, n.cID, 1, n.size.customers) }
func (n nuRand) item(rng *rand.Rand) int     { return n.draw(rng, n.aItem, n.cItem, 1, n.size.items) }
func (n nuRand) lastName(rng *rand.Rand) string {
	return lastName(n.draw(rng, n.aLast, n.cLast, 0, n.size.lastNames-1))
}

// lastName makes the name of a number below 1000 (4.3.2.3).
func lastName(n int) string {
	syl := [...]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
	return syl[n/100] + syl[n/10%10] + syl[n%10]
}

// regionOf is the region of a warehouse.
func regionOf(w, regions int) int { return (w - 1) % regions }

// warehousesOf lists the warehouses of a region, once the size is known.
func (t *tpcc) warehousesOf(region, regions int) []int {
	var ws []int
	for w := region + 1; w <= t.size.warehouses; w += regions {
		ws = append(ws, w)
	}
	return ws
}

func (t *tpcc) kinds() []string {
	return []string{"new-order", "payment", "order-status", "delivery", "stock-level"}
}

// open reads the size of the loaded database.
func (t *tpcc) open(ctx context.Context, s *session, regions int) error {
	t.regions = regions
	if err := t.readSize(ctx, s); err != nil {
		return err
	}
	if t.size.warehouses < regions {
		return fmt.Errorf("%d regions but only %d warehouses are loaded: run init with --warehouses %d or more",
			regions, t.size.warehouses, regions)
	}
	t.nu = newNURand(t.size, t.seed)
	return nil
}

func (t *tpcc) readSize(ctx context.Context, s *session) error {
	var z tpccSize
	var w, i, c sql.NullInt64
	if err := s.row(ctx, []any{&w}, "SELECT MAX(w_id) FROM warehouse"); err != nil {
		return err
	}
	if err := s.row(ctx, []any{&i}, "SELECT MAX(i_id) FROM item"); err != nil {
		return err
	}
	if err := s.row(ctx, []any{&c}, "SELECT MAX(c_id) FROM customer WHERE c_w_id = 1 AND c_d_id = 1"); err != nil {
		return err
	}
	if w.Int64 == 0 || i.Int64 == 0 || c.Int64 == 0 {
		return errors.New("the TPC-C tables are empty or half loaded: run `godwit workload init tpcc --drop` first")
	}
	z = scaledSize(int(w.Int64), float64(c.Int64)/3000)
	z.items, z.customers = int(i.Int64), int(c.Int64)
	t.size = z
	return nil
}

// client binds a client to warehouses of its region. There are as many groups of warehouses as
// clients, or one warehouse for several clients.
func (t *tpcc) client(region, i, n int) client {
	own := t.warehousesOf(region, t.regions)
	c := &tpccClient{t: t, rng: newRand(t.seed, 0xc11e, uint64(region), uint64(i)), number: int64(region*n + i)}
	if n >= len(own) {
		c.warehouses = own[i%len(own):][:1]
	} else {
		for j := i; j < len(own); j += n {
			c.warehouses = append(c.warehouses, own[j])
		}
	}
	// With Wait a client is the terminal of one district, which matters to Stock-Level only
	// (2.8.1.1).
	if t.opts.Wait {
		c.district = i/len(own)%tpccDistricts + 1
	}
	return c
}

type tpccClient struct {
	t          *tpcc
	rng        *rand.Rand
	warehouses []int
	district   int // for Stock-Level of a waiting terminal (2.8.1.1), 0 for any
	deck       []int
	number     int64 // of the client, over all regions
	lastID     int64 // see historyID
}

// historyID makes a key for history that no other client or run uses: microseconds since 2024,
// forced upwards, and the client's number in the low 12 bits.
func (c *tpccClient) historyID() int64 {
	c.lastID = max(c.lastID+1, time.Since(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
	return c.lastID<<12 | c.number&0xfff
}

// deck is the mix as cards (5.2.4.2): 45/43/4/4/4 in each hundred, so that even short runs keep to
// it.
var deck = []struct{ kind, cards int }{
	{kindNewOrder, 45}, {kindPayment, 43}, {kindOrderStatus, 4}, {kindDelivery, 4}, {kindStockLevel, 4},
}

// Keying times and mean think times (5.2.5.7), by kind.
var (
	keying   = [...]time.Duration{18 * time.Second, 3 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}
	thinking = [...]time.Duration{12 * time.Second, 12 * time.Second, 10 * time.Second, 5 * time.Second, 5 * time.Second}
)

func (c *tpccClient) next() txn {
	if len(c.deck) == 0 {
		for _, d := range deck {
			for range d.cards {
				c.deck = append(c.deck, d.kind)
			}
		}
		c.rng.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
	}
	kind := c.deck[len(c.deck)-1]
	c.deck = c.deck[:len(c.deck)-1]
	t := txn{kind: kind}
	w := c.warehouses[c.rng.IntN(len(c.warehouses))]
	switch kind {
	case kindNewOrder:
		t.run = c.newOrder(w).run
	case kindPayment:
		t.run = c.payment(w).run
	case kindOrderStatus:
		t.run = c.orderStatus(w).run
	case kindDelivery:
		t.run = c.delivery(w).run
	case kindStockLevel:
		t.run = c.stockLevel(w).run
	}
	if c.t.opts.Wait {
		t.keying = keying[kind]
		// Negative exponential, cut at ten times the mean (5.2.5.4).
		t.thinking = min(time.Duration(c.rng.ExpFloat64()*float64(thinking[kind])), 10*thinking[kind])
	}
	return t
}

// anyDistrict draws a district of a warehouse.
func (c *tpccClient) anyDistrict() int { return between(c.rng, 1, tpccDistricts) }

// chooser picks a customer by number or by last name.
type chooser struct {
	w, d, id int
	last     string // instead of id if not empty
}

// choose draws 60 % by last name, 40 % by number (2.5.1.2, 2.6.1.2).
func (c *tpccClient) choose(w, d int) chooser {
	if chance(c.rng, 0.6) {
		return chooser{w: w, d: d, last: c.t.nu.lastName(c.rng)}
	}
	return chooser{w: w, d: d, id: c.t.nu.customer(c.rng)}
}

// customer resolves the choice: of the customers with that last name, ordered by first name, the
// one in the middle, position n/2 rounded up (2.5.2.2).
func (c chooser) customer(ctx context.Context, s *session) (int, error) {
	if c.last == "" {
		return c.id, nil
	}
	var ids []int
	err := s.query(ctx, func(r *sql.Rows) error {
		var id int
		err := r.Scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first", c.w, c.d, c.last)
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, fmt.Errorf("no customer called %s in warehouse %d, district %d: the tables are damaged or half loaded",
			c.last, c.w, c.d)
	}
	return ids[(len(ids)+1)/2-1], nil
}

// placeholders is "(?,?),(?,?)" for rows of columns; in, "?,?".
func placeholders(rows, columns int) string {
	row := "(" + in(columns) + ")"
	return strings.TrimSuffix(strings.Repeat(row+",", rows), ",")
}

func in(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
