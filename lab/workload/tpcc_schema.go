package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

func (t *tpcc) tables() []string {
	return []string{"order_line", "new_order", "orders", "history", "stock", "customer", "district", "warehouse", "item"}
}

// tpccSchema is the schema of 1.3. Each key begins with the warehouse. %s stands for history's key.
var tpccSchema = []string{
	`CREATE TABLE warehouse (
		w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), w_city VARCHAR(20),
		w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2),
		PRIMARY KEY (w_id))`,
	`CREATE TABLE district (
		d_w_id INT NOT NULL, d_id INT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_street_2 VARCHAR(20),
		d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT,
		PRIMARY KEY (d_w_id, d_id))`,
	`CREATE TABLE customer (
		c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2),
		c_last VARCHAR(16), c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), c_city VARCHAR(20), c_state CHAR(2),
		c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2), c_credit_lim DECIMAL(12,2),
		c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT,
		c_delivery_cnt INT, c_data VARCHAR(500),
		PRIMARY KEY (c_w_id, c_d_id, c_id), KEY customer_name (c_w_id, c_d_id, c_last, c_first))`,
	`CREATE TABLE history (
		%sh_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT NOT NULL, h_date DATETIME,
		h_amount DECIMAL(6,2), h_data VARCHAR(24)%s)`,
	`CREATE TABLE orders (
		o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT,
		o_ol_cnt INT, o_all_local INT,
		PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id))`,
	`CREATE TABLE new_order (
		no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL,
		PRIMARY KEY (no_w_id, no_d_id, no_o_id))`,
	`CREATE TABLE order_line (
		ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT,
		ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6,2), ol_dist_info CHAR(24),
		PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))`,
	`CREATE TABLE stock (
		s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT, s_dist_01 CHAR(24), s_dist_02 CHAR(24),
		s_dist_03 CHAR(24), s_dist_04 CHAR(24), s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24),
		s_dist_08 CHAR(24), s_dist_09 CHAR(24), s_dist_10 CHAR(24), s_ytd INT, s_order_cnt INT, s_remote_cnt INT,
		s_data VARCHAR(50),
		PRIMARY KEY (s_w_id, s_i_id))`,
	`CREATE TABLE item (
		i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50),
		PRIMARY KEY (i_id))`,
}

// create makes the tables. Item is read by every region and never written, so Godwit is told to
// keep it everywhere.
func (t *tpcc) create(ctx context.Context, s *session) error {
	for _, q := range tpccSchema {
		if strings.Contains(q, "TABLE history") {
			column, key := "", ""
			if t.opts.HistoryKey {
				column, key = "h_id BIGINT NOT NULL, ", ", PRIMARY KEY (h_w_id, h_id)"
			}
			q = fmt.Sprintf(q, column, key)
		}
		if err := s.exec(ctx, q); err != nil {
			return fmt.Errorf("creating the TPC-C tables: %w", err)
		}
	}
	server, err := serverName(ctx, s)
	if err != nil {
		return err
	}
	if strings.Contains(strings.ToLower(server), "godwit") {
		if err := s.exec(ctx, "ALTER TABLE item SET LOCALITY GLOBAL"); err != nil {
			return fmt.Errorf("making item a global table: %w", err)
		}
	}
	return nil
}

// load follows the initial population of 4.3.3.1.
func (t *tpcc) load(l *loader) {
	t.size = scaledSize(t.opts.Warehouses, t.opts.Scale)
	t.nu = newNURand(t.size, t.seed)
	t.nu.cLast = t.nu.cLastLoad
	now := time.Now()
	chunk := max(t.size.items/10, 1)
	for lo := 1; lo <= t.size.items; lo += chunk {
		hi := min(lo+chunk-1, t.size.items)
		l.add(0, hi-lo+1, func(ctx context.Context, b *batch) error { return t.loadItems(ctx, b, lo, hi) })
	}
	for w := 1; w <= t.size.warehouses; w++ {
		region := regionOf(w, l.regions)
		l.add(region, 1+tpccDistricts, func(ctx context.Context, b *batch) error { return t.loadWarehouse(ctx, b, w) })
		for d := 1; d <= tpccDistricts; d++ {
			n := t.size.customers
			l.add(region, 2*n, func(ctx context.Context, b *batch) error { return t.loadCustomers(ctx, b, w, d, now) })
			// Ten lines an order on average.
			l.add(region, n+10*n+n*3/10, func(ctx context.Context, b *batch) error { return t.loadOrders(ctx, b, w, d, now) })
		}
		for lo := 1; lo <= t.size.items; lo += chunk {
			hi := min(lo+chunk-1, t.size.items)
			l.add(region, hi-lo+1, func(ctx context.Context, b *batch) error { return t.loadStock(ctx, b, w, lo, hi) })
		}
	}
}

// The parts of the loading that have a random generator each.
const (
	drawItem = iota + 1
	drawWarehouse
	drawCustomer
	drawOrder
	drawStock
)

func (t *tpcc) loadItems(ctx context.Context, b *batch, lo, hi int) error {
	rng := newRand(t.seed, drawItem, uint64(lo))
	if err := b.into(ctx, "item (i_id, i_im_id, i_name, i_price, i_data)"); err != nil {
		return err
	}
	for i := lo; i <= hi; i++ {
		err := b.row(ctx, i, between(rng, 1, 10_000), alpha(rng, 14, 24), money(between(rng, 100, 10_000)), original(rng))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tpcc) loadWarehouse(ctx context.Context, b *batch, w int) error {
	rng := newRand(t.seed, drawWarehouse, uint64(w))
	// The specification's 300,000 and 30,000 are the sum of the customers' first payments.
	ytd := money(t.size.customers) * 1000
	if err := b.into(ctx, "warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd)"); err != nil {
		return err
	}
	err := b.row(ctx, w, alpha(rng, 6, 10), alpha(rng, 10, 20), alpha(rng, 10, 20), alpha(rng, 10, 20), state(rng),
		digits(rng, 4)+"11111", rate(between(rng, 0, 2000)), ytd*tpccDistricts)
	if err != nil {
		return err
	}
	err = b.into(ctx, "district (d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd, "+
		"d_next_o_id)")
	if err != nil {
		return err
	}
	for d := 1; d <= tpccDistricts; d++ {
		err := b.row(ctx, w, d, alpha(rng, 6, 10), alpha(rng, 10, 20), alpha(rng, 10, 20), alpha(rng, 10, 20), state(rng),
			digits(rng, 4)+"11111", rate(between(rng, 0, 2000)), ytd, t.size.customers+1)
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tpcc) loadStock(ctx context.Context, b *batch, w, lo, hi int) error {
	rng := newRand(t.seed, drawStock, uint64(w), uint64(lo))
	err := b.into(ctx, "stock (s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, "+
		"s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data)")
	if err != nil {
		return err
	}
	for i := lo; i <= hi; i++ {
		row := []any{w, i, between(rng, 10, 100)}
		for range tpccDistricts {
			row = append(row, alpha(rng, 24, 24))
		}
		if err := b.row(ctx, append(row, 0, 0, 0, original(rng))...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tpcc) loadCustomers(ctx context.Context, b *batch, w, d int, now time.Time) error {
	rng := newRand(t.seed, drawCustomer, uint64(w), uint64(d))
	err := b.into(ctx, "customer (c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, "+
		"c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, "+
		"c_delivery_cnt, c_data)")
	if err != nil {
		return err
	}
	for c := 1; c <= t.size.customers; c++ {
		var last string
		if c <= t.size.lastNames {
			last = lastName(c - 1)
		} else {
			last = t.nu.lastName(rng)
		}
		credit := "GC"
		if chance(rng, 0.1) {
			credit = "BC"
		}
		err := b.row(ctx, w, d, c, alpha(rng, 8, 16), "OE", last, alpha(rng, 10, 20), alpha(rng, 10, 20), alpha(rng, 10, 20),
			state(rng), digits(rng, 4)+"11111", digits(rng, 16), now, credit, money(50_000_00),
			rate(between(rng, 0, 5000)), money(-10_00), money(10_00), 1, 0, alpha(rng, 300, 500))
		if err != nil {
			return err
		}
	}
	columns := "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data"
	if t.opts.HistoryKey {
		columns = "h_id, " + columns
	}
	if err := b.into(ctx, "history ("+columns+")"); err != nil {
		return err
	}
	b.keyless = !t.opts.HistoryKey
	for c := 1; c <= t.size.customers; c++ {
		row := []any{c, d, w, d, w, now, money(10_00), alpha(rng, 12, 24)}
		if t.opts.HistoryKey {
			// Below every key a client makes, see tpccClient.historyID.
			row = append([]any{d*10_000 + c}, row...)
		}
		if err := b.row(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tpcc) loadOrders(ctx context.Context, b *batch, w, d int, now time.Time) error {
	rng := newRand(t.seed, drawOrder, uint64(w), uint64(d))
	n, first := t.size.customers, t.size.firstUndelivered()
	customers := rng.Perm(n)
	lines := make([]int, n)
	err := b.into(ctx, "orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)")
	if err != nil {
		return err
	}
	for i := range n {
		lines[i] = between(rng, 5, 15)
		var carrier any
		if i+1 < first {
			carrier = between(rng, 1, 10)
		}
		if err := b.row(ctx, w, d, i+1, customers[i]+1, now, carrier, lines[i], 1); err != nil {
			return err
		}
	}
	err = b.into(ctx, "order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, "+
		"ol_amount, ol_dist_info)")
	if err != nil {
		return err
	}
	for i := range n {
		for line := 1; line <= lines[i]; line++ {
			var delivered any = now
			amount := money(0)
			if i+1 >= first {
				delivered, amount = nil, money(between(rng, 1, 9999_99))
			}
			err := b.row(ctx, w, d, i+1, line, between(rng, 1, t.size.items), w, delivered, 5, amount, alpha(rng, 24, 24))
			if err != nil {
				return err
			}
		}
	}
	if err := b.into(ctx, "new_order (no_w_id, no_d_id, no_o_id)"); err != nil {
		return err
	}
	for o := first; o <= n; o++ {
		if err := b.row(ctx, w, d, o); err != nil {
			return err
		}
	}
	return nil
}

// state is two random letters.
func state(rng *rand.Rand) string {
	return string([]byte{byte('A' + rng.IntN(26)), byte('A' + rng.IntN(26))})
}

// original is i_data or s_data: in one row of ten it contains "ORIGINAL" (4.3.3.1).
func original(rng *rand.Rand) string {
	b := appendAlpha(nil, rng, between(rng, 26, 50))
	if chance(rng, 0.1) {
		copy(b[rng.IntN(len(b)-7):], "ORIGINAL")
	}
	return string(b)
}
