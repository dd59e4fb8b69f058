package sysschema

// emptyViews have no rows: they are made of instruments that are off.
var emptyViews = []view{
	{name: "host_summary_by_file_io", columns: "host #ios ~io_latency"},
	{name: "host_summary_by_file_io_type", columns: "host event_name #total ~total_latency ~max_latency"},
	{name: "host_summary_by_stages", columns: "host event_name #total ~total_latency ~avg_latency"},
	{name: "io_by_thread_by_latency", columns: "user #total ~total_latency ~min_latency ~avg_latency ~max_latency #thread_id #processlist_id"},
	{name: "io_global_by_file_by_bytes", columns: "file #count_read ^total_read ^avg_read #count_write ^total_written ^avg_write ^total %write_pct"},
	{name: "io_global_by_file_by_latency", columns: "file #total ~total_latency #count_read ~read_latency #count_write ~write_latency " +
		"#count_misc ~misc_latency"},
	{name: "io_global_by_wait_by_bytes", columns: "event_name #total ~total_latency ~min_latency ~avg_latency ~max_latency #count_read " +
		"^total_read ^avg_read #count_write ^total_written ^avg_written ^total_requested"},
	{name: "io_global_by_wait_by_latency", columns: "event_name #total ~total_latency ~avg_latency ~max_latency ~read_latency ~write_latency " +
		"~misc_latency #count_read ^total_read ^avg_read #count_write ^total_written ^avg_written"},
	{name: "latest_file_io", columns: "thread file ~latency operation ^requested"},
	{name: "memory_by_host_by_current_bytes", columns: "host #current_count_used ^current_allocated ^current_avg_alloc ^current_max_alloc ^total_allocated"},
	{name: "memory_by_thread_by_current_bytes", columns: "#thread_id user #current_count_used ^current_allocated ^current_avg_alloc " +
		"^current_max_alloc ^total_allocated"},
	{name: "memory_by_user_by_current_bytes", columns: "user #current_count_used ^current_allocated ^current_avg_alloc ^current_max_alloc ^total_allocated"},
	{name: "memory_global_by_current_bytes", columns: "event_name #current_count ^current_alloc ^current_avg_alloc #high_count ^high_alloc ^high_avg_alloc"},
	{name: "ps_check_lost_instrumentation", columns: "variable_name variable_value", plain: true},
	{name: "schema_table_lock_waits", columns: "object_schema object_name #waiting_thread_id #waiting_pid waiting_account waiting_lock_type " +
		"waiting_lock_duration ?waiting_query #waiting_query_secs #waiting_query_rows_affected #waiting_query_rows_examined #blocking_thread_id " +
		"#blocking_pid blocking_account blocking_lock_type blocking_lock_duration sql_kill_blocking_query sql_kill_blocking_connection"},
	{name: "user_summary_by_file_io", columns: "user #ios ~io_latency"},
	{name: "user_summary_by_file_io_type", columns: "user event_name #total ~latency ~max_latency"},
	{name: "user_summary_by_stages", columns: "user event_name #total ~total_latency ~avg_latency"},
	{name: "wait_classes_global_by_avg_latency", columns: "event_class #total ~total_latency ~min_latency ~avg_latency ~max_latency"},
	{name: "wait_classes_global_by_latency", columns: "event_class #total ~total_latency ~min_latency ~avg_latency ~max_latency"},
	{name: "waits_by_host_by_latency", columns: "host event #total ~total_latency ~avg_latency ~max_latency"},
	{name: "waits_by_user_by_latency", columns: "user event #total ~total_latency ~avg_latency ~max_latency"},
	{name: "waits_global_by_latency", columns: "events #total ~total_latency ~avg_latency ~max_latency"},
}
