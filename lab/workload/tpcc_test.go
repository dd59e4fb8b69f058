package workload

import (
	"bytes"
	"database/sql/driver"
	"math"
	"regexp"
	"strings"
	"testing"
)

func newTPCC(warehouses, regions int) *tpcc {
	o := DefaultOptions().TPCC
	o.Scale = minScale
	t := &tpcc{opts: o, seed: 1, size: scaledSize(warehouses, minScale), regions: regions}
	t.nu = newNURand(t.size, 1)
	return t
}

// TestTPCCWarehousesOfClients checks that clients cover just their region's warehouses.
func TestTPCCWarehousesOfClients(t *testing.T) {
	for _, c := range []struct{ warehouses, regions, clients int }{{1, 1, 1}, {1, 1, 7}, {10, 1, 3}, {10, 3, 2},
		{7, 3, 5}, {5, 5, 1}} {
		w := newTPCC(c.warehouses, c.regions)
		seen := map[int]bool{}
		for r := range c.regions {
			for i := range c.clients {
				for _, k := range w.client(r, i, c.clients).(*tpccClient).warehouses {
					if (k-1)%c.regions != r || k > c.warehouses {
						t.Errorf("%+v: client of region %d has warehouse %d", c, r, k)
					}
					seen[k] = true
				}
			}
		}
		if len(seen) != c.warehouses {
			t.Errorf("%+v: only warehouses %v have clients", c, seen)
		}
	}
}

// TestTPCC_5_2_3 checks the mix; TestTPCC_2_4_1 below the inputs of New-Order.
func TestTPCC_5_2_3(t *testing.T) {
	c := newTPCC(2, 1).client(0, 0, 1).(*tpccClient)
	var seen [5]int
	for range 10_000 {
		seen[c.next().kind]++
	}
	if seen != [5]int{4500, 4300, 400, 400, 400} {
		t.Errorf("mix %v", seen)
	}
}

func TestTPCC_2_4_1(t *testing.T) {
	w := newTPCC(4, 2)
	c := w.client(1, 0, 1).(*tpccClient)
	const n = 20_000
	var lines, remote, rollbacks, remotePayments, byName int
	for range n {
		o := c.newOrder(2)
		lines += len(o.lines)
		items := map[int]bool{}
		local := 1
		for i, l := range o.lines {
			items[l.item] = true
			if l.supply != 2 {
				remote++
				local = 0
			}
			if l.item > w.size.items {
				rollbacks++
				if i != len(o.lines)-1 {
					t.Fatalf("line %d of %d has the unused item", i, len(o.lines))
				}
			}
			if l.number != i+1 || l.quantity < 1 || l.quantity > 10 || l.supply < 1 || l.supply > 4 || l.item < 1 {
				t.Fatalf("line %+v", l)
			}
		}
		if len(items) != len(o.lines) || len(items) < 5 || len(items) > 15 || o.local != local {
			t.Fatalf("order %+v", o)
		}
		p := c.payment(2)
		if p.who.w != 2 {
			remotePayments++
		} else if p.who.d != p.d {
			t.Fatalf("local payment in district %d by a customer of district %d", p.d, p.who.d)
		}
		if p.who.last != "" {
			byName++
		}
	}
	for name, v := range map[string][2]float64{
		"lines an order":    {float64(lines) / n, 10},
		"remote lines":      {float64(remote) / float64(lines), 0.01},
		"rollbacks":         {float64(rollbacks) / n, 0.01},
		"remote payments":   {float64(remotePayments) / n, 0.15},
		"customers by name": {float64(byName) / n, 0.6},
	} {
		if math.Abs(v[0]-v[1]) > 0.15*v[1] {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
	h, last := w.client(0, 0, 1).(*tpccClient), int64(0)
	for range 1000 {
		if id := h.historyID(); id <= last || id <= 2_000_000 {
			t.Fatalf("history key %d after %d", id, last)
		} else {
			last = id
		}
	}
}

var insertHead = regexp.MustCompile(`^INSERT INTO (\w+) `)

// TestTPCCLoad loads two warehouses into fake servers and counts what each region got.
func TestTPCCLoad(t *testing.T) {
	o := DefaultOptions()
	o.TPCC.Scale, o.TPCC.Warehouses, o.TPCC.HistoryKey = minScale, 3, true
	w, err := New("tpcc", o)
	if err != nil {
		t.Fatal(err)
	}
	servers := []*fakeServer{{}, {}}
	l := &loader{regions: 2, seed: 1, tasks: make([][]loadTask, 2)}
	w.(*runner).scenario.load(l)
	var progress bytes.Buffer
	o.LoadProgress = &progress
	pools := []*pool{servers[0].pool("a"), servers[1].pool("b")}
	defer closePools(pools)
	if err := l.run(t.Context(), pools, o); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "loaded: ") {
		t.Errorf("progress %q", progress.String())
	}
	for region, warehouses := range []int{2, 1} {
		rows := map[string]int{}
		for _, q := range servers[region].statements {
			if len(q) > batchBytes {
				t.Errorf("a statement has %d bytes", len(q))
			}
			m := insertHead.FindStringSubmatch(q)
			if m == nil {
				t.Fatalf("statement %.80s", q)
			}
			n := strings.Count(q, "),(") + 1
			if n > batchRows {
				t.Errorf("a statement has %d rows", n)
			}
			rows[m[1]] += n
		}
		want := map[string]int{"warehouse": 1, "district": 10, "customer": 300, "history": 300, "orders": 300, "new_order": 90,
			"stock": 1000}
		for table, n := range want {
			if rows[table] != n*warehouses {
				t.Errorf("region %d got %d rows of %s, want %d", region, rows[table], table, n*warehouses)
			}
		}
		if n := rows["order_line"]; n < 2500*warehouses || n > 3500*warehouses {
			t.Errorf("region %d got %d order lines", region, n)
		}
		if want := 1000 * (1 - region); rows["item"] != want {
			t.Errorf("region %d got %d items, want %d", region, rows["item"], want)
		}
	}
}

// TestTPCCItemLocality checks that only Godwit is told to keep item everywhere.
func TestTPCCItemLocality(t *testing.T) {
	for version, want := range map[string]int{"8.0.33-Godwit": 1, "10.11.19-MariaDB": 0} {
		f := &fakeServer{answer: func(q string, _ []driver.NamedValue) (*fakeRows, error) {
			if q == "SELECT VERSION()" {
				return rowsOf([]driver.Value{version}), nil
			}
			return nil, nil
		}}
		p := f.pool("a")
		s := p.session(0)
		err := newTPCC(1, 1).create(t.Context(), s)
		if n := f.count("ALTER TABLE item SET LOCALITY GLOBAL"); err != nil || n != want || f.count("CREATE TABLE") != 9 {
			t.Errorf("%s: %d statements about locality, %v", version, n, err)
		}
		s.reset()
		closePools([]*pool{p})
	}
}

// tinyTPCC answers the queries of check with one warehouse: in each district three customers and
// three orders, the last one undelivered. change may alter an answer.
func tinyTPCC(change func(query string, district int64, rows [][]driver.Value)) *fakeServer {
	return &fakeServer{answer: func(q string, args []driver.NamedValue) (*fakeRows, error) {
		v := func(x ...driver.Value) []driver.Value { return x }
		var district int64
		if len(args) == 2 {
			district = args[1].Value.(int64)
		}
		var r *fakeRows
		switch {
		case strings.Contains(q, "MAX(w_id)"):
			r = rowsOf(v(int64(1)))
		case strings.Contains(q, "MAX(i_id)"), strings.Contains(q, "MAX(c_id)"):
			r = rowsOf(v(int64(30)))
		case strings.Contains(q, "FROM history"):
			r = &fakeRows{}
			for d := range int64(10) {
				for c := range int64(3) {
					r.rows = append(r.rows, v(int64(1), d+1, int64(1), d+1, c+1, []byte("10.00")))
				}
			}
		case strings.Contains(q, "FROM warehouse"):
			r = rowsOf(v([]byte("300.00")))
		case strings.Contains(q, "FROM district"):
			r = &fakeRows{}
			for d := range int64(10) {
				r.rows = append(r.rows, v(d+1, []byte("30.00"), int64(4)))
			}
		case strings.Contains(q, "FROM orders"):
			r = rowsOf(v(int64(1), int64(3), int64(5), int64(7)), v(int64(2), int64(1), int64(6), int64(7)),
				v(int64(3), int64(2), int64(7), nil))
		case strings.Contains(q, "FROM order_line"):
			r = rowsOf(v(int64(1), int64(5), int64(5), []byte("0.00")),
				v(int64(2), int64(6), int64(6), []byte("12.34")), v(int64(3), int64(7), int64(0), []byte("0.00")))
		case strings.Contains(q, "FROM new_order"):
			r = rowsOf(v(int64(3)))
		case strings.Contains(q, "FROM customer"):
			r = rowsOf(v(int64(1), []byte("2.34"), []byte("10.00")), v(int64(2), []byte("-10.00"), []byte("10.00")),
				v(int64(3), []byte("-10.00"), []byte("10.00")))
		default:
			return nil, nil
		}
		if change != nil {
			change(q, district, r.rows)
		}
		return r, nil
	}}
}

// TestTPCC_3_3_2 changes one value at a time and expects the conditions that it breaks, and no
// others.
func TestTPCC_3_3_2(t *testing.T) {
	for _, c := range []struct {
		name, query string
		column      int
		value       driver.Value
		broken      string
	}{
		{"nothing", "none", 0, nil, ""},
		{"w_ytd", "FROM warehouse", 0, []byte("300.01"), "1 8"},
		{"d_ytd", "FROM district", 1, []byte("29.00"), "1 9"},
		{"d_next_o_id", "FROM district", 2, int64(5), "2"},
		{"o_ol_cnt", "FROM orders", 2, int64(6), "4 6"},
		{"o_carrier_id", "FROM orders", 3, nil, "5 7"},
		{"o_c_id", "FROM orders", 1, int64(1), ""}, // order 1 was free of charge
		{"order line lost", "FROM order_line", 1, int64(4), "4 6 7"},
		{"not delivered", "FROM order_line", 2, int64(4), "7"},
		{"ol_amount", "FROM order_line", 3, []byte("1.00"), "10 12"},
		{"no_o_id", "FROM new_order", 0, int64(2), "2 5"},
		{"h_amount", "FROM history", 5, []byte("9.99"), "8 9 10"},
		{"c_balance", "FROM customer", 1, []byte("2.35"), "10 12"},
		{"c_ytd_payment", "FROM customer", 2, []byte("10.01"), "12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tinyTPCC(func(q string, district int64, rows [][]driver.Value) {
				if strings.Contains(q, c.query) && !strings.Contains(q, "MAX(") && (district == 0 || district == 4) {
					rows[0][c.column] = c.value
				}
			})
			p := f.pool("a")
			defer closePools([]*pool{p})
			s := p.session(0)
			defer s.reset()
			results, err := (&tpcc{}).check(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			var broken []string
			for _, r := range results {
				if !r.OK {
					broken = append(broken, strings.TrimPrefix(r.Name, "3.3.2."))
				}
			}
			if got := strings.Join(broken, " "); got != c.broken {
				t.Errorf("conditions %q are broken, want %q: %+v", got, c.broken, results)
			}
			if len(results) != len(tpccConditions) || Failed(results) != len(broken) {
				t.Errorf("%d results, %d failed", len(results), Failed(results))
			}
		})
	}
}
