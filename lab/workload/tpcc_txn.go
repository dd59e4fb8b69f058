package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// newOrder is the New-Order transaction (2.4).
type newOrder struct {
	c       *tpccClient
	w, d, u int // warehouse, district, customer
	lines   []orderLine
	local   int // o_all_local
	entry   string
}

type orderLine struct {
	number, item, supply, quantity int
}

// unusedItem is an item number that no table has (2.4.1.5).
func (s tpccSize) unusedItem() int { return s.items + 1 }

// newOrder draws the inputs (2.4.1). An item comes up at most once in an order: that keeps each
// stock row to one update and is what other implementations do.
func (c *tpccClient) newOrder(w int) *newOrder {
	rng := c.rng
	o := &newOrder{c: c, w: w, d: c.anyDistrict(), u: c.t.nu.customer(rng), local: 1, entry: sqlTime(time.Now())}
	used := map[int]bool{}
	n := between(rng, 5, 15)
	for i := 1; i <= n; i++ {
		l := orderLine{number: i, item: c.t.nu.item(rng), supply: w, quantity: between(rng, 1, 10)}
		for used[l.item] {
			l.item = c.t.nu.item(rng)
		}
		used[l.item] = true
		if c.t.size.warehouses > 1 && chance(rng, c.t.opts.RemoteLines) {
			l.supply = other(rng, w-1, c.t.size.warehouses) + 1
			o.local = 0
		}
		o.lines = append(o.lines, l)
	}
	// One order in a hundred has a last item that does not exist, and is rolled back (2.4.1.4).
	if chance(rng, 0.01) {
		o.lines[n-1].item = c.t.size.unusedItem()
	}
	return o
}

// run orders its locks so that New-Orders cannot deadlock among themselves: district, then stock by
// warehouse and item.
func (o *newOrder) run(ctx context.Context, s *session) error {
	var wTax, dTax, discount float64
	var last, credit string
	var id int
	if err := s.row(ctx, []any{&wTax}, "SELECT w_tax FROM warehouse WHERE w_id = ?", o.w); err != nil {
		return err
	}
	err := s.row(ctx, []any{&discount, &last, &credit},
		"SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", o.w, o.d, o.u)
	if err != nil {
		return err
	}
	err = s.row(ctx, []any{&id, &dTax},
		"SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE", o.w, o.d)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?", id+1, o.w, o.d)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) "+
		"VALUES (?,?,?,?,?,?,?)", o.w, o.d, id, o.u, o.entry, len(o.lines), o.local)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (?,?,?)", o.w, o.d, id)
	if err != nil {
		return err
	}
	prices, err := o.prices(ctx, s)
	if err != nil {
		return err
	}
	dist, err := o.takeStock(ctx, s)
	if err != nil {
		return err
	}
	args := make([]any, 0, 9*len(o.lines))
	for _, l := range o.lines {
		args = append(args, o.w, o.d, id, l.number, l.item, l.supply, l.quantity,
			(money(l.quantity) * prices[l.item]).String(), dist[l.item])
	}
	return s.exec(ctx, "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, "+
		"ol_quantity, ol_amount, ol_dist_info) VALUES "+placeholders(len(o.lines), 9), args...)
}

// prices reads the items. A missing one is the user's mistake, which rolls the order back
// (2.4.1.4).
func (o *newOrder) prices(ctx context.Context, s *session) (map[int]money, error) {
	items := make([]any, len(o.lines))
	for i, l := range o.lines {
		items[i] = l.item
	}
	slices.SortFunc(items, func(a, b any) int { return cmp.Compare(a.(int), b.(int)) })
	prices := make(map[int]money, len(items))
	err := s.query(ctx, func(r *sql.Rows) error {
		var id int
		var price money
		var name, data string
		err := r.Scan(&id, &price, &name, &data)
		prices[id] = price
		return err
	}, "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ("+in(len(items))+")", items...)
	if err != nil {
		return nil, err
	}
	for _, l := range o.lines {
		if _, ok := prices[l.item]; !ok {
			if l.item == o.c.t.size.unusedItem() {
				return nil, errRollback
			}
			return nil, fmt.Errorf("item %d does not exist: the tables are damaged or half loaded", l.item)
		}
	}
	return prices, nil
}

// takeStock reads and locks the stock rows, with one statement for each supplying warehouse, and
// updates each row (2.4.2.2).
func (o *newOrder) takeStock(ctx context.Context, s *session) (map[int]string, error) {
	lines := slices.Clone(o.lines)
	slices.SortFunc(lines, func(a, b orderLine) int {
		return cmp.Or(cmp.Compare(a.supply, b.supply), cmp.Compare(a.item, b.item))
	})
	dist := make(map[int]string, len(lines))
	for len(lines) > 0 {
		supply := lines[0].supply
		n := 1
		for n < len(lines) && lines[n].supply == supply {
			n++
		}
		args := []any{supply}
		for _, l := range lines[:n] {
			args = append(args, l.item)
		}
		quantities := make(map[int]int, n)
		err := s.query(ctx, func(r *sql.Rows) error {
			var id, quantity int
			var info, data string
			err := r.Scan(&id, &quantity, &data, &info)
			quantities[id], dist[id] = quantity, info
			return err
		}, fmt.Sprintf("SELECT s_i_id, s_quantity, s_data, s_dist_%02d FROM stock WHERE s_w_id = ? AND s_i_id IN (%s) FOR UPDATE",
			o.d, in(n)), args...)
		if err != nil {
			return nil, err
		}
		for _, l := range lines[:n] {
			q, ok := quantities[l.item]
			if !ok {
				return nil, fmt.Errorf("no stock row for item %d in warehouse %d: the tables are damaged or half loaded",
					l.item, supply)
			}
			q -= l.quantity
			if q < 10 {
				q += 91
			}
			remote := 0
			if supply != o.w {
				remote = 1
			}
			err := s.exec(ctx, "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, "+
				"s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?", q, l.quantity, remote, supply, l.item)
			if err != nil {
				return nil, err
			}
		}
		lines = lines[n:]
	}
	return dist, nil
}

// payment is the Payment transaction (2.5).
type payment struct {
	w, d    int
	who     chooser
	amount  money
	date    string
	history int64 // key of the history row, 0 for a table without a key
}

func (c *tpccClient) payment(w int) *payment {
	p := &payment{w: w, d: c.anyDistrict(), amount: money(between(c.rng, 1_00, 5000_00)), date: sqlTime(time.Now())}
	cw, cd := w, p.d
	if c.t.size.warehouses > 1 && chance(c.rng, c.t.opts.RemotePayments) {
		cw, cd = other(c.rng, w-1, c.t.size.warehouses)+1, c.anyDistrict()
	}
	p.who = c.choose(cw, cd)
	if c.t.opts.HistoryKey {
		p.history = c.historyID()
	}
	return p
}

func (p *payment) run(ctx context.Context, s *session) error {
	var name, street1, street2, city, state, zip [3]string // of warehouse, district, customer
	amount := p.amount.String()
	err := s.exec(ctx, "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", amount, p.w)
	if err != nil {
		return err
	}
	err = s.row(ctx, []any{&name[0], &street1[0], &street2[0], &city[0], &state[0], &zip[0]},
		"SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?", p.w)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?", amount, p.w, p.d)
	if err != nil {
		return err
	}
	err = s.row(ctx, []any{&name[1], &street1[1], &street2[1], &city[1], &state[1], &zip[1]},
		"SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = ? AND d_id = ?", p.w, p.d)
	if err != nil {
		return err
	}
	id, err := p.who.customer(ctx, s)
	if err != nil {
		return err
	}
	var first, middle, phone, since, credit, discount string
	var limit, balance money
	key := []any{p.who.w, p.who.d, id}
	err = s.row(ctx, []any{&first, &middle, &name[2], &street1[2], &street2[2], &city[2], &state[2], &zip[2], &phone, &since,
		&credit, &limit, &discount, &balance},
		"SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, "+
			"c_credit_lim, c_discount, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE", key...)
	if err != nil {
		return err
	}
	set, args := "", []any{amount, amount}
	if credit == "BC" { // bad credit: the payment is noted in front of c_data (2.5.2.2)
		var data string
		err := s.row(ctx, []any{&data}, "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", key...)
		if err != nil {
			return err
		}
		data = fmt.Sprintf("%d %d %d %d %d %s|%s", id, p.who.d, p.who.w, p.d, p.w, amount, data)
		set, args = ", c_data = ?", append(args, data[:min(len(data), 500)])
	}
	err = s.exec(ctx, "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, "+
		"c_payment_cnt = c_payment_cnt + 1"+set+" WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", append(args, key...)...)
	if err != nil {
		return err
	}
	columns := "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data"
	row := []any{id, p.who.d, p.who.w, p.d, p.w, p.date, amount, name[0] + "    " + name[1]}
	if p.history != 0 {
		columns, row = "h_id, "+columns, append([]any{p.history}, row...)
	}
	return s.exec(ctx, "INSERT INTO history ("+columns+") VALUES "+placeholders(1, len(row)), row...)
}

// orderStatus is the Order-Status transaction (2.6).
type orderStatus struct{ who chooser }

func (c *tpccClient) orderStatus(w int) *orderStatus {
	return &orderStatus{c.choose(w, c.anyDistrict())}
}

func (o *orderStatus) run(ctx context.Context, s *session) error {
	id, err := o.who.customer(ctx, s)
	if err != nil {
		return err
	}
	var balance money
	var first, middle, last string
	err = s.row(ctx, []any{&balance, &first, &middle, &last},
		"SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
		o.who.w, o.who.d, id)
	if err != nil {
		return err
	}
	var order int
	var entry string
	var carrier sql.NullInt64
	err = s.row(ctx, []any{&order, &entry, &carrier}, "SELECT o_id, o_entry_d, o_carrier_id FROM orders "+
		"WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1", o.who.w, o.who.d, id)
	if err != nil {
		return err
	}
	lines := 0
	err = s.query(ctx, func(r *sql.Rows) error {
		lines++
		var item, supply, quantity int
		var amount money
		var delivered sql.NullString
		return r.Scan(&item, &supply, &quantity, &amount, &delivered)
	}, "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line "+
		"WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", o.who.w, o.who.d, order)
	if err == nil && lines == 0 {
		return fmt.Errorf("order %d of warehouse %d, district %d has no lines", order, o.who.w, o.who.d)
	}
	return err
}

// delivery is the Delivery transaction (2.7), all ten districts in one database transaction and
// without the queue.
type delivery struct {
	w, carrier int
	date       string
}

func (c *tpccClient) delivery(w int) *delivery {
	return &delivery{w, between(c.rng, 1, 10), sqlTime(time.Now())}
}

func (d *delivery) run(ctx context.Context, s *session) error {
	for district := 1; district <= tpccDistricts; district++ {
		if err := d.district(ctx, s, district); err != nil {
			return err
		}
	}
	return nil
}

// district delivers the oldest undelivered order of a district; if there is none it skips it
// (2.7.4.2).
func (d *delivery) district(ctx context.Context, s *session, district int) error {
	var order, customer int
	var total money
	found := false
	err := s.query(ctx, func(r *sql.Rows) error {
		found = true
		return r.Scan(&order)
	}, "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE", d.w, district)
	if err != nil || !found {
		return err
	}
	key := []any{d.w, district, order}
	err = s.exec(ctx, "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", key...)
	if err != nil {
		return err
	}
	err = s.row(ctx, []any{&customer}, "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = "+
		"? FOR UPDATE", key...)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
		append([]any{d.carrier}, key...)...)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
		append([]any{d.date}, key...)...)
	if err != nil {
		return err
	}
	err = s.row(ctx, []any{&total}, "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND "+
		"ol_o_id = ?", key...)
	if err != nil {
		return err
	}
	return s.exec(ctx, "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 "+
		"WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", total.String(), d.w, district, customer)
}

// stockLevel is the Stock-Level transaction (2.8).
type stockLevel struct{ w, d, threshold int }

func (c *tpccClient) stockLevel(w int) *stockLevel {
	d := c.district
	if d == 0 {
		d = c.anyDistrict()
	}
	return &stockLevel{w, d, between(c.rng, 10, 20)}
}

// stockLevelQuery is the join over the last 20 orders as the specification's own sample program has
// it (A.5).
var stockLevelQuery = strings.Join([]string{
	"SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock",
	"WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= ?",
	"AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?",
}, " ")

func (l *stockLevel) run(ctx context.Context, s *session) error {
	var next, low int
	err := s.row(ctx, []any{&next}, "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", l.w, l.d)
	if err != nil {
		return err
	}
	return s.row(ctx, []any{&low}, stockLevelQuery, l.w, l.d, next, next-20, l.w, l.threshold)
}
