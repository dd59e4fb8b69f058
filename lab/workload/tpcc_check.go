package workload

import (
	"context"
	"database/sql"
	"fmt"
)

// violations gathers what breaks one condition.
type violations struct {
	name, description string
	checked, broken   int
	first             string
}

// expect counts one comparison; detail is formatted only for the first that fails.
func (v *violations) expect(ok bool, detail string, args ...any) {
	v.checked++
	if !ok {
		if v.broken++; v.broken == 1 {
			v.first = fmt.Sprintf(detail, args...)
		}
	}
}

func (v *violations) result() CheckResult {
	r := CheckResult{Name: v.name, Description: v.description, OK: v.broken == 0}
	if r.OK {
		r.Detail = fmt.Sprintf("%d compared", v.checked)
	} else {
		r.Detail = fmt.Sprintf("%d of %d wrong; first: %s", v.broken, v.checked, v.first)
	}
	return r
}

// tpccConditions are the consistency conditions of 3.3.2, by number. Condition 11 (orders minus new
// orders is 2100) holds for a freshly loaded database only and is left out; 4.3.3.1's row counts
// are not checked either.
var tpccConditions = []struct {
	number      int
	description string
}{
	{1, "w_ytd = sum of d_ytd"},
	{2, "d_next_o_id - 1 = max o_id = max no_o_id"},
	{3, "the numbers in new_order have no gap"},
	{4, "sum of o_ol_cnt = number of order lines of the district"},
	{5, "o_carrier_id is null just for the orders in new_order"},
	{6, "o_ol_cnt = number of order lines of the order"},
	{7, "ol_delivery_d is null just where o_carrier_id is null"},
	{8, "w_ytd = sum of h_amount of the warehouse"},
	{9, "d_ytd = sum of h_amount of the district"},
	{10, "c_balance = sum of delivered ol_amount - sum of h_amount"},
	{12, "c_balance + c_ytd_payment = sum of delivered ol_amount"},
}

// tpccCheck evaluates the conditions district by district. Each district's rows are read once, and
// the server sends only sums.
type tpccCheck struct {
	s     *session
	conds map[int]*violations
	// paid is the sum of h_amount by customer; taken by (warehouse, district) that received the
	// payment.
	paid  map[[3]int]money
	taken map[[2]int]money
}

func (c *tpccCheck) start() {
	c.conds = map[int]*violations{}
	for _, k := range tpccConditions {
		c.conds[k.number] = &violations{name: fmt.Sprintf("3.3.2.%d", k.number), description: k.description}
	}
	c.paid, c.taken = map[[3]int]money{}, map[[2]int]money{}
}

// check reads everything in one transaction, so it may also run under load with snapshot or
// serializable isolation. Servers that lock what they read then block writers.
func (t *tpcc) check(ctx context.Context, s *session) ([]CheckResult, error) {
	c := &tpccCheck{s: s}
	err := inTransaction(ctx, s, func() error {
		c.start()
		if err := t.readSize(ctx, s); err != nil {
			return err
		}
		if err := c.history(ctx); err != nil {
			return err
		}
		for w := 1; w <= t.size.warehouses; w++ {
			if err := c.warehouse(ctx, w); err != nil {
				return fmt.Errorf("checking warehouse %d: %w", w, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []CheckResult
	for _, k := range tpccConditions {
		out = append(out, c.conds[k.number].result())
	}
	return out, nil
}

// history sums the payments.
func (c *tpccCheck) history(ctx context.Context) error {
	return c.s.query(ctx, func(r *sql.Rows) error {
		var w, d, cw, cd, id int
		var sum money
		if err := r.Scan(&w, &d, &cw, &cd, &id, &sum); err != nil {
			return err
		}
		c.taken[[2]int{w, d}] += sum
		c.paid[[3]int{cw, cd, id}] += sum
		return nil
	}, "SELECT h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) FROM history "+
		"GROUP BY h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id")
}

// warehouse checks a warehouse and its districts.
func (c *tpccCheck) warehouse(ctx context.Context, w int) error {
	var ytd, districts, payments money
	if err := c.s.row(ctx, []any{&ytd}, "SELECT w_ytd FROM warehouse WHERE w_id = ?", w); err != nil {
		return err
	}
	type district struct {
		id, next int
		ytd      money
	}
	var ds []district
	err := c.s.query(ctx, func(r *sql.Rows) error {
		var d district
		err := r.Scan(&d.id, &d.ytd, &d.next)
		ds = append(ds, d)
		return err
	}, "SELECT d_id, d_ytd, d_next_o_id FROM district WHERE d_w_id = ? ORDER BY d_id", w)
	if err != nil {
		return err
	}
	if len(ds) != tpccDistricts {
		return fmt.Errorf("%d districts instead of %d", len(ds), tpccDistricts)
	}
	for _, d := range ds {
		districts += d.ytd
		taken := c.taken[[2]int{w, d.id}]
		payments += taken
		c.conds[9].expect(d.ytd == taken, "warehouse %d, district %d: d_ytd %v, history %v", w, d.id, d.ytd, taken)
		if err := c.district(ctx, w, d.id, d.next); err != nil {
			return err
		}
	}
	c.conds[1].expect(ytd == districts, "warehouse %d: w_ytd %v, districts %v", w, ytd, districts)
	c.conds[8].expect(ytd == payments, "warehouse %d: w_ytd %v, history %v", w, ytd, payments)
	return nil
}

// checkedOrder is what the conditions need of an order.
type checkedOrder struct {
	customer, count    int
	carrier            bool
	lines, undelivered int
	delivered          money
	pending            bool // in new_order
}

// district checks one district.
func (c *tpccCheck) district(ctx context.Context, w, d, next int) error {
	orders, err := c.orders(ctx, w, d)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("warehouse %d, district %d", w, d)
	var maxOrder, minPending, maxPending, pending, wantLines, lines int
	owed := map[int]money{}
	for id, o := range orders {
		maxOrder = max(maxOrder, id)
		if o.pending {
			if pending == 0 {
				minPending = id
			}
			pending++
			minPending, maxPending = min(minPending, id), max(maxPending, id)
		}
		wantLines += o.count
		lines += o.lines
		owed[o.customer] += o.delivered
		c.conds[5].expect(o.carrier != o.pending, "%s, order %d: delivered %v, in new_order %v", where, id, o.carrier, o.pending)
		c.conds[6].expect(o.count == o.lines, "%s, order %d: o_ol_cnt %d, %d lines", where, id, o.count, o.lines)
		want := 0
		if !o.carrier {
			want = o.lines
		}
		c.conds[7].expect(o.undelivered == want, "%s, order %d: carrier set %v, but %d of %d lines undelivered",
			where, id, o.carrier, o.undelivered, o.lines)
	}
	c.conds[2].expect(next-1 == maxOrder, "%s: d_next_o_id %d, max o_id %d", where, next, maxOrder)
	if pending > 0 {
		c.conds[2].expect(next-1 == maxPending, "%s: d_next_o_id %d, max no_o_id %d", where, next, maxPending)
		c.conds[3].expect(maxPending-minPending+1 == pending, "%s: %d rows from %d to %d", where, pending, minPending, maxPending)
	} else {
		c.conds[3].expect(true, "")
	}
	c.conds[4].expect(wantLines == lines, "%s: sum of o_ol_cnt %d, %d lines", where, wantLines, lines)

	return c.s.query(ctx, func(r *sql.Rows) error {
		var id int
		var balance, payments money
		if err := r.Scan(&id, &balance, &payments); err != nil {
			return err
		}
		paid := c.paid[[3]int{w, d, id}]
		c.conds[10].expect(balance == owed[id]-paid, "%s, customer %d: c_balance %v, delivered %v, history %v",
			where, id, balance, owed[id], paid)
		c.conds[12].expect(balance+payments == owed[id], "%s, customer %d: c_balance %v, c_ytd_payment %v, delivered %v",
			where, id, balance, payments, owed[id])
		return nil
	}, "SELECT c_id, c_balance, c_ytd_payment FROM customer WHERE c_w_id = ? AND c_d_id = ?", w, d)
}

// orders gathers a district's orders with their lines and new_order rows. Lines and new orders
// without an order become orders of their own, which then break a condition.
func (c *tpccCheck) orders(ctx context.Context, w, d int) (map[int]*checkedOrder, error) {
	orders := map[int]*checkedOrder{}
	order := func(id int) *checkedOrder {
		o := orders[id]
		if o == nil {
			o = &checkedOrder{}
			orders[id] = o
		}
		return o
	}
	err := c.s.query(ctx, func(r *sql.Rows) error {
		var id, customer, count int
		var carrier sql.NullInt64
		err := r.Scan(&id, &customer, &count, &carrier)
		o := order(id)
		o.customer, o.count, o.carrier = customer, count, carrier.Valid
		return err
	}, "SELECT o_id, o_c_id, o_ol_cnt, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ?", w, d)
	if err != nil {
		return nil, err
	}
	err = c.s.query(ctx, func(r *sql.Rows) error {
		var id, lines, delivered int
		var sum money
		err := r.Scan(&id, &lines, &delivered, &sum)
		o := order(id)
		o.lines, o.undelivered, o.delivered = lines, lines-delivered, sum
		return err
	}, "SELECT ol_o_id, COUNT(*), COUNT(ol_delivery_d), SUM(CASE WHEN ol_delivery_d IS NULL THEN 0 ELSE ol_amount END) "+
		"FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? GROUP BY ol_o_id", w, d)
	if err != nil {
		return nil, err
	}
	err = c.s.query(ctx, func(r *sql.Rows) error {
		var id int
		err := r.Scan(&id)
		order(id).pending = true
		return err
	}, "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ?", w, d)
	return orders, err
}
