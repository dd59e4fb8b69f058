package bench

import (
	"context"
	"math/rand/v2"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// TPC-C on keys: the five transactions in the mix of the standard, with fewer and smaller rows. As in the paper there are as many
// warehouses as terminals, and all that a terminal does by itself stays in its warehouse.
const (
	mallTable     = 200
	mallRegions   = 3
	mallDistricts = 10
	mallCustomers = 20 // a warehouse
	mallItems     = 40 // in stock at a warehouse
	mallLines     = 5  // of an order
	mallOrders    = 12 // a warehouse, to begin with
)

// Tables.
const (
	mallWare    = iota // the warehouse, its districts, its customers
	mallStock          // items
	mallOrder          // orders and their lines, 8 keys an order
	mallHistory        // of payments
)

// mall is the warehouses of all regions in one shard.
type mall struct {
	shard base.ShardID
	per   int // warehouses, and terminals, of a region
	// numbers of orders and payments
	orders, payments atomic.Int64
	letters          []byte
}

func newMall(shard base.ShardID, per int) *mall {
	m := &mall{shard: shard, per: per, letters: make([]byte, 1<<16)}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	r := rand.New(rand.NewPCG(1, 0x90d))
	for i := range m.letters { // rows of the same bytes would say nothing about compression
		m.letters[i] = alphabet[r.IntN(len(alphabet))]
	}
	m.orders.Store(mallOrders)
	return m
}

func (m *mall) value(r *rand.Rand) []byte {
	i := r.IntN(len(m.letters) - 100)
	return m.letters[i : i+100]
}

// key is row n of a warehouse in a table; warehouses lie in their region.
func (m *mall) key(table, ware int, n int64) base.Key {
	k := base.IndexPrefix(m.shard, base.MakeTableID(uint64(mallTable+table), base.RegionID(ware/m.per+1)), 0, 0)
	return base.AppendInt64(base.AppendInt64(k, int64(ware)), n)
}

func (m *mall) keys(table, ware int, from int64, n int) []base.Key {
	out := make([]base.Key, n)
	for i := range out {
		out[i] = m.key(table, ware, from+int64(i))
	}
	return out
}

const (
	firstDistrict = 1
	firstCustomer = firstDistrict + mallDistricts
	wareRows      = firstCustomer + mallCustomers
	orderKeys     = 8
)

// rows are all of a warehouse.
func (m *mall) rows(ware int) []base.Key {
	ks := append(m.keys(mallWare, ware, 0, wareRows), m.keys(mallStock, ware, 0, mallItems)...)
	for n := range int64(mallOrders) {
		ks = append(ks, m.keys(mallOrder, ware, n*orderKeys, 1+mallLines)...)
	}
	return ks
}

// load fills the warehouses of all regions at once.
func (m *mall) load(ctx context.Context, g *geo) error {
	return each(mallRegions, func(region int) error {
		r := rand.New(rand.NewPCG(uint64(region), 7))
		for w := region * m.per; w < (region+1)*m.per; w++ {
			if err := fill(ctx, g.dbs[region], m.rows(w), func() []byte { return m.value(r) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *mall) customer(ware int, r *rand.Rand) base.Key {
	return m.key(mallWare, ware, firstCustomer+int64(r.IntN(mallCustomers)))
}

// next draws a transaction of the full benchmark.
func (m *mall) next(ware int) func(r *rand.Rand) job {
	return func(r *rand.Rand) job { return m.mixed(ware, [5]int{45, 43, 4, 4, 4}, r) }
}

// mixed draws a transaction by the shares of New-Order, Payment, Order-Status, Delivery and Stock-Level, in percent.
func (m *mall) mixed(ware int, shares [5]int, r *rand.Rand) job {
	district := m.key(mallWare, ware, firstDistrict+int64(r.IntN(mallDistricts)))
	update := func(ks ...base.Key) op { return op{Kind: opUpdate, Keys: ks, Value: m.value(r)} }
	insert := func(ks ...base.Key) op { return op{Kind: opInsert, Keys: ks, Value: m.value(r)} }
	kind, n := 0, r.IntN(100)
	for n -= shares[0]; n >= 0 && kind < len(shares)-1; n -= shares[kind] {
		kind++
	}
	switch kind {
	case 0: // New-Order
		var stock []base.Key
		for _, i := range r.Perm(mallItems)[:mallLines] {
			stock = append(stock, m.key(mallStock, ware, int64(i)))
		}
		return job{
			{Kind: opRead, Keys: []base.Key{m.key(mallWare, ware, 0), m.customer(ware, r)}}, update(district), update(stock...),
			insert(m.keys(mallOrder, ware, m.orders.Add(1)*orderKeys, 1+mallLines)...),
		}
	case 1: // Payment
		return job{update(m.key(mallWare, ware, 0)), update(district), update(m.customer(ware, r)),
			insert(m.key(mallHistory, ware, m.payments.Add(1)))}
	case 2:
		return m.orderStatus(ware, ware, r)
	case 3: // Delivery
		o := int64(r.IntN(mallOrders))
		return job{update(m.keys(mallOrder, ware, o*orderKeys, 1+mallLines)...), update(m.customer(ware, r))}
	default:
		return m.stockLevel(ware, ware, r)
	}
}

// orderStatus looks for a customer, an order and its lines, in one or two warehouses.
func (m *mall) orderStatus(ware, other int, r *rand.Rand) job {
	o := int64(r.IntN(mallOrders))
	return job{
		m.both(ware, other, func(w int) []base.Key { return []base.Key{m.customer(w, r)} }),
		m.both(ware, other, func(w int) []base.Key { return []base.Key{m.key(mallOrder, w, o*orderKeys)} }),
		m.both(ware, other, func(w int) []base.Key { return m.keys(mallOrder, w, o*orderKeys+1, mallLines) }),
	}
}

// stockLevel looks for a district, the lines of its newest orders and the stock of what they name, in one or two warehouses.
func (m *mall) stockLevel(ware, other int, r *rand.Rand) job {
	const orders, items = 4, 10
	first, item := int64(r.IntN(mallOrders-orders)), int64(r.IntN(mallItems-items))
	return job{
		m.both(ware, other, func(w int) []base.Key {
			return []base.Key{m.key(mallWare, w, firstDistrict+int64(r.IntN(mallDistricts)))}
		}),
		m.both(ware, other, func(w int) (ks []base.Key) {
			for o := range int64(orders) {
				ks = append(ks, m.keys(mallOrder, w, (first+o)*orderKeys+1, mallLines)...)
			}
			return ks
		}),
		m.both(ware, other, func(w int) []base.Key { return m.keys(mallStock, w, item, items) }),
	}
}

// both is a read of a warehouse and, if that is another one, of a second.
func (m *mall) both(ware, other int, keys func(ware int) []base.Key) op {
	o := op{Kind: opRead, Keys: keys(ware)}
	if other != ware {
		o.Keys = append(o.Keys, keys(other)...)
	}
	return o
}

// readOnly draws Order-Status or Stock-Level; half of them read a warehouse of another region as well.
func (m *mall) readOnly(ware int) func(r *rand.Rand) job {
	return func(r *rand.Rand) job {
		other := ware
		if r.IntN(2) == 0 {
			other = (ware/m.per+1+r.IntN(mallRegions-1))%mallRegions*m.per + r.IntN(m.per)
		}
		if r.IntN(2) == 0 {
			return m.orderStatus(ware, other, r)
		}
		return m.stockLevel(ware, other, r)
	}
}

// point draws a row of any region: two thirds of them are of another one.
func (m *mall) point(int) func(r *rand.Rand) job {
	return func(r *rand.Rand) job {
		return job{{Kind: opRead, Keys: []base.Key{m.key(mallStock, r.IntN(mallRegions*m.per), int64(r.IntN(mallItems)))}}}
	}
}

// terminals are one client for each warehouse, in its region, or fewer.
func (m *mall) terminals(per int, next func(ware int) func(r *rand.Rand) job) (cs []*client) {
	for region := range mallRegions {
		for i := range min(per, m.per) {
			cs = append(cs, newClient(region, 0, next(region*m.per+i)))
		}
	}
	return cs
}
