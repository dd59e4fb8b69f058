package rig

import (
	"context"
	"math/rand/v2"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// TPC-C on keys has the five transactions in the standard's mix, with fewer and smaller rows. As in
// the paper there are as many warehouses as terminals, and each terminal stays in its own
// warehouse, unless a figure says otherwise.
const (
	mallTable     = 200
	MallRegions   = 3
	MallDistricts = 10
	MallCustomers = 20 // a warehouse
	MallItems     = 40 // in stock at a warehouse
	MallLines     = 5  // of an order
	mallOrders    = 12 // a warehouse, to begin with
)

// The tables.
const (
	MallWare    = iota // the warehouse, its districts, its customers
	MallStock          // items
	mallOrder          // orders and their lines, 8 keys an order
	mallHistory        // of payments
)

// Mall is TPC-C on keys: the warehouses of all regions in one shard.
type Mall struct {
	shard base.ShardID
	Per   int // warehouses, and terminals, of a region
	// numbers of orders and payments
	orders, payments atomic.Int64
	Letters          []byte
}

// NewMall defines the warehouses of a shard, per of them for each region. Load fills them.
func NewMall(shard base.ShardID, per int) *Mall {
	m := &Mall{shard: shard, Per: per, Letters: make([]byte, 1<<16)}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	r := rand.New(rand.NewPCG(1, 0x90d))
	for i := range m.Letters { // rows of the same bytes would say nothing about compression
		m.Letters[i] = alphabet[r.IntN(len(alphabet))]
	}
	m.orders.Store(mallOrders)
	return m
}

func (m *Mall) value(r *rand.Rand) []byte {
	i := r.IntN(len(m.Letters) - 100)
	return m.Letters[i : i+100]
}

// Key is the key of row n of a warehouse in a table. The table's id names the warehouse's region.
func (m *Mall) Key(table, ware int, n int64) base.Key {
	k := base.IndexPrefix(m.shard, base.MakeTableID(uint64(mallTable+table), base.RegionID(ware/m.Per+1)), 0, 0)
	return base.AppendInt64(base.AppendInt64(k, int64(ware)), n)
}

func (m *Mall) keys(table, ware int, from int64, n int) []base.Key {
	out := make([]base.Key, n)
	for i := range out {
		out[i] = m.Key(table, ware, from+int64(i))
	}
	return out
}

// rows are the keys of all rows of a warehouse.
func (m *Mall) rows(ware int) []base.Key {
	ks := append(m.keys(MallWare, ware, 0, WareRows), m.keys(MallStock, ware, 0, MallItems)...)
	for n := range int64(mallOrders) {
		ks = append(ks, m.keys(mallOrder, ware, n*OrderKeys, 1+MallLines)...)
	}
	return ks
}

// Load fills the warehouses of all regions at once.
func (m *Mall) Load(ctx context.Context, g *Cluster) error {
	return Each(MallRegions, func(region int) error {
		r := rand.New(rand.NewPCG(uint64(region), 7))
		for w := region * m.Per; w < (region+1)*m.Per; w++ {
			if err := Fill(ctx, g.DBs[region], m.rows(w), func() []byte { return m.value(r) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Mall) customer(ware int, r *rand.Rand) base.Key {
	return m.Key(MallWare, ware, FirstCustomer+int64(r.IntN(MallCustomers)))
}

// Next draws a transaction from the full mix.
func (m *Mall) Next(ware int) func(r *rand.Rand) Job {
	return func(r *rand.Rand) Job { return m.Mixed(ware, [5]int{45, 43, 4, 4, 4}, r) }
}

// Mixed draws a transaction by the shares of New-Order, Payment, Order-Status, Delivery and
// Stock-Level, in percent.
func (m *Mall) Mixed(ware int, shares [5]int, r *rand.Rand) Job {
	district := m.Key(MallWare, ware, FirstDistrict+int64(r.IntN(MallDistricts)))
	update := func(ks ...base.Key) Op { return Op{Kind: OpUpdate, Keys: ks, Value: m.value(r)} }
	insert := func(ks ...base.Key) Op { return Op{Kind: OpInsert, Keys: ks, Value: m.value(r)} }
	kind, n := 0, r.IntN(100)
	for n -= shares[0]; n >= 0 && kind < len(shares)-1; n -= shares[kind] {
		kind++
	}
	switch kind {
	case 0: // New-Order
		var stock []base.Key
		for _, i := range r.Perm(MallItems)[:MallLines] {
			stock = append(stock, m.Key(MallStock, ware, int64(i)))
		}
		return Job{
			{Kind: OpRead, Keys: []base.Key{m.Key(MallWare, ware, 0), m.customer(ware, r)}}, update(district), update(stock...),
			insert(m.keys(mallOrder, ware, m.orders.Add(1)*OrderKeys, 1+MallLines)...),
		}
	case 1: // Payment
		return Job{update(m.Key(MallWare, ware, 0)), update(district), update(m.customer(ware, r)),
			insert(m.Key(mallHistory, ware, m.payments.Add(1)))}
	case 2:
		return m.OrderStatus(ware, ware, r)
	case 3: // Delivery
		o := int64(r.IntN(mallOrders))
		return Job{update(m.keys(mallOrder, ware, o*OrderKeys, 1+MallLines)...), update(m.customer(ware, r))}
	default:
		return m.stockLevel(ware, ware, r)
	}
}

// OrderStatus looks for a customer, an order and its lines, in one or two warehouses.
func (m *Mall) OrderStatus(ware, other int, r *rand.Rand) Job {
	o := int64(r.IntN(mallOrders))
	return Job{
		m.both(ware, other, func(w int) []base.Key { return []base.Key{m.customer(w, r)} }),
		m.both(ware, other, func(w int) []base.Key { return []base.Key{m.Key(mallOrder, w, o*OrderKeys)} }),
		m.both(ware, other, func(w int) []base.Key { return m.keys(mallOrder, w, o*OrderKeys+1, MallLines) }),
	}
}

// stockLevel looks for a district, the lines of its newest orders and the stock of what they name,
// in one or two warehouses.
func (m *Mall) stockLevel(ware, other int, r *rand.Rand) Job {
	const orders, items = 4, 10
	first, item := int64(r.IntN(mallOrders-orders)), int64(r.IntN(MallItems-items))
	return Job{
		m.both(ware, other, func(w int) []base.Key {
			return []base.Key{m.Key(MallWare, w, FirstDistrict+int64(r.IntN(MallDistricts)))}
		}),
		m.both(ware, other, func(w int) (ks []base.Key) {
			for o := range int64(orders) {
				ks = append(ks, m.keys(mallOrder, w, (first+o)*OrderKeys+1, MallLines)...)
			}
			return ks
		}),
		m.both(ware, other, func(w int) []base.Key { return m.keys(MallStock, w, item, items) }),
	}
}

// both reads a warehouse and, if other is another one, that one too.
func (m *Mall) both(ware, other int, keys func(ware int) []base.Key) Op {
	o := Op{Kind: OpRead, Keys: keys(ware)}
	if other != ware {
		o.Keys = append(o.Keys, keys(other)...)
	}
	return o
}

// ReadOnly draws Order-Status or Stock-Level; half of them read a warehouse of another region as
// well.
func (m *Mall) ReadOnly(ware int) func(r *rand.Rand) Job {
	return func(r *rand.Rand) Job {
		other := ware
		if r.IntN(2) == 0 {
			other = (ware/m.Per+1+r.IntN(MallRegions-1))%MallRegions*m.Per + r.IntN(m.Per)
		}
		if r.IntN(2) == 0 {
			return m.OrderStatus(ware, other, r)
		}
		return m.stockLevel(ware, other, r)
	}
}

// Point draws a row of any region. With three regions, two thirds of the rows are remote.
func (m *Mall) Point(int) func(r *rand.Rand) Job {
	return func(r *rand.Rand) Job {
		return Job{{Kind: OpRead, Keys: []base.Key{m.Key(MallStock, r.IntN(MallRegions*m.Per), int64(r.IntN(MallItems)))}}}
	}
}

// Terminals makes one client for each warehouse, in its region, and at most per clients a region.
func (m *Mall) Terminals(per int, next func(ware int) func(r *rand.Rand) Job) (cs []*Client) {
	for region := range MallRegions {
		for i := range min(per, m.Per) {
			cs = append(cs, NewClient(region, 0, next(region*m.Per+i)))
		}
	}
	return cs
}

// The numbers of the rows in a warehouse's part of a table: one row of the warehouse itself, its
// districts, its customers. WareRows is how many these are. Each order has OrderKeys numbers of the
// table of orders: one for itself, the others for its lines.
const (
	FirstDistrict = 1
	FirstCustomer = FirstDistrict + MallDistricts
	WareRows      = FirstCustomer + MallCustomers
	OrderKeys     = 8
)
