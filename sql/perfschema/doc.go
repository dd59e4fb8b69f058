// Package perfschema makes the database performance_schema: what this node knows of its clients,
// their statements, variables and locks, in the tables and columns of MySQL 8.0.
//
// A table whose columns the node knows has live rows. One that MySQL leaves empty while an
// instrument or a consumer is off is empty, and setup_instruments and setup_consumers say that it
// is off. Others are not there. Nothing but TRUNCATE of some summaries changes anything.
//
// THREAD_ID is the number of the connection: this server has no other threads to tell apart.
package perfschema
