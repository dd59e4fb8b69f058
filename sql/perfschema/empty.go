package perfschema

// empty are tables without rows: nothing replicates to this server, it has no keyring, and what
// their instruments or consumers would count is off, as setup_instruments and setup_consumers say.
var empty = map[string]string{
	"cond_instances":                                       "NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!",
	"events_stages_current":                                "@stages",
	"events_stages_history":                                "@stages",
	"events_stages_history_long":                           "@stages",
	"events_stages_summary_by_account_by_event_name":       "USER char(32), HOST char(255), EVENT_NAME varchar(128)!, @timers",
	"events_stages_summary_by_host_by_event_name":          "HOST char(255), EVENT_NAME varchar(128)!, @timers",
	"events_stages_summary_by_thread_by_event_name":        "THREAD_ID u64!, EVENT_NAME varchar(128)!, @timers",
	"events_stages_summary_by_user_by_event_name":          "USER char(32), EVENT_NAME varchar(128)!, @timers",
	"events_stages_summary_global_by_event_name":           "EVENT_NAME varchar(128)!, @timers",
	"events_statements_history_long":                       "@statements",
	"events_transactions_current":                          "@transactions",
	"events_transactions_history":                          "@transactions",
	"events_transactions_history_long":                     "@transactions",
	"events_transactions_summary_by_account_by_event_name": "USER char(32), HOST char(255), EVENT_NAME varchar(128)!, @transaction",
	"events_transactions_summary_by_host_by_event_name":    "HOST char(255), EVENT_NAME varchar(128)!, @transaction",
	"events_transactions_summary_by_thread_by_event_name":  "THREAD_ID u64!, EVENT_NAME varchar(128)!, @transaction",
	"events_transactions_summary_by_user_by_event_name":    "USER char(32), EVENT_NAME varchar(128)!, @transaction",
	"events_transactions_summary_global_by_event_name":     "EVENT_NAME varchar(128)!, @transaction",
	"events_waits_current":                                 "@waits",
	"events_waits_history":                                 "@waits",
	"events_waits_history_long":                            "@waits",
	"events_waits_summary_by_account_by_event_name":        "USER char(32), HOST char(255), EVENT_NAME varchar(128)!, @timers",
	"events_waits_summary_by_host_by_event_name":           "HOST char(255), EVENT_NAME varchar(128)!, @timers",
	"events_waits_summary_by_instance":                     "EVENT_NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, @timers",
	"events_waits_summary_by_thread_by_event_name":         "THREAD_ID u64!, EVENT_NAME varchar(128)!, @timers",
	"events_waits_summary_by_user_by_event_name":           "USER char(32), EVENT_NAME varchar(128)!, @timers",
	"events_waits_summary_global_by_event_name":            "EVENT_NAME varchar(128)!, @timers",
	"file_instances":                                       "FILE_NAME varchar(512)!, EVENT_NAME varchar(128)!, OPEN_COUNT uint!",
	"file_summary_by_event_name":                           "EVENT_NAME varchar(128)!, @file",
	"file_summary_by_instance":                             "FILE_NAME varchar(512)!, EVENT_NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, @file",
	"keyring_component_status":                             "STATUS_KEY varchar(256)!, STATUS_VALUE varchar(1024)!",
	"keyring_keys":                                         "KEY_ID varchar(255)!, KEY_OWNER varchar(255), BACKEND_KEY_ID varchar(255)",
	"memory_summary_by_account_by_event_name":              "USER char(32), HOST char(255), EVENT_NAME varchar(128)!, @memory",
	"memory_summary_by_host_by_event_name":                 "HOST char(255), EVENT_NAME varchar(128)!, @memory",
	"memory_summary_by_thread_by_event_name":               "THREAD_ID u64!, EVENT_NAME varchar(128)!, @memory",
	"memory_summary_by_user_by_event_name":                 "USER char(32), EVENT_NAME varchar(128)!, @memory",
	"memory_summary_global_by_event_name":                  "EVENT_NAME varchar(128)!, @memory",
	"metadata_locks": "OBJECT_TYPE varchar(64)!, OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64), COLUMN_NAME varchar(64), " +
		"OBJECT_INSTANCE_BEGIN u64!, LOCK_TYPE varchar(32)!, LOCK_DURATION varchar(32)!, LOCK_STATUS varchar(32)!, SOURCE varchar(64), " +
		"OWNER_THREAD_ID u64, OWNER_EVENT_ID u64",
	"mutex_instances": "NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, LOCKED_BY_THREAD_ID u64",
	"objects_summary_global_by_type": "OBJECT_TYPE varchar(64), OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64), " +
		"@timers",
	"prepared_statements_instances": "OBJECT_INSTANCE_BEGIN u64!, STATEMENT_ID u64!, STATEMENT_NAME varchar(64), SQL_TEXT longtext!, " +
		"OWNER_THREAD_ID u64!, OWNER_EVENT_ID u64!, OWNER_OBJECT_TYPE varchar(9), OWNER_OBJECT_SCHEMA varchar(64), " +
		"OWNER_OBJECT_NAME varchar(64), EXECUTION_ENGINE varchar(9), TIMER_PREPARE u64!, COUNT_REPREPARE u64!, COUNT_EXECUTE u64!, " +
		"SUM_TIMER_EXECUTE u64!, MIN_TIMER_EXECUTE u64!, AVG_TIMER_EXECUTE u64!, MAX_TIMER_EXECUTE u64!, SUM_LOCK_TIME u64!, " +
		"SUM_ERRORS u64!, SUM_WARNINGS u64!, SUM_ROWS_AFFECTED u64!, SUM_ROWS_SENT u64!, SUM_ROWS_EXAMINED u64!, " +
		"SUM_CREATED_TMP_DISK_TABLES u64!, SUM_CREATED_TMP_TABLES u64!, SUM_SELECT_FULL_JOIN u64!, SUM_SELECT_FULL_RANGE_JOIN u64!, " +
		"SUM_SELECT_RANGE u64!, SUM_SELECT_RANGE_CHECK u64!, SUM_SELECT_SCAN u64!, SUM_SORT_MERGE_PASSES u64!, SUM_SORT_RANGE u64!, " +
		"SUM_SORT_ROWS u64!, SUM_SORT_SCAN u64!, SUM_NO_INDEX_USED u64!, SUM_NO_GOOD_INDEX_USED u64!, SUM_CPU_TIME u64!, " +
		"MAX_CONTROLLED_MEMORY u64!, MAX_TOTAL_MEMORY u64!, COUNT_SECONDARY u64!",
	"replication_applier_configuration": "CHANNEL_NAME char(64)!, DESIRED_DELAY int!, PRIVILEGE_CHECKS_USER text, " +
		"REQUIRE_ROW_FORMAT varchar(3)!, REQUIRE_TABLE_PRIMARY_KEY_CHECK varchar(8)!, ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE varchar(5)!, " +
		"ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE text",
	"replication_applier_filters": "CHANNEL_NAME char(64)!, FILTER_NAME char(64)!, FILTER_RULE longtext!, CONFIGURED_BY varchar(38)!, " +
		"ACTIVE_SINCE timestamp(6)!, COUNTER u64!",
	"replication_applier_global_filters": "FILTER_NAME char(64)!, FILTER_RULE longtext!, CONFIGURED_BY varchar(38)!, ACTIVE_SINCE timestamp(6)!",
	"replication_applier_status": "CHANNEL_NAME char(64)!, SERVICE_STATE varchar(3)!, REMAINING_DELAY uint, " +
		"COUNT_TRANSACTIONS_RETRIES u64!",
	"replication_applier_status_by_coordinator": "CHANNEL_NAME char(64)!, THREAD_ID u64, SERVICE_STATE varchar(3)!, LAST_ERROR_NUMBER int!, " +
		"LAST_ERROR_MESSAGE varchar(1024)!, LAST_ERROR_TIMESTAMP timestamp(6)!, LAST_PROCESSED_TRANSACTION char(57), " +
		"LAST_PROCESSED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, " +
		"LAST_PROCESSED_TRANSACTION_START_BUFFER_TIMESTAMP timestamp(6)!, LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP timestamp(6)!, " +
		"PROCESSING_TRANSACTION char(57), PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, " +
		"PROCESSING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, PROCESSING_TRANSACTION_START_BUFFER_TIMESTAMP timestamp(6)!",
	"replication_applier_status_by_worker": "CHANNEL_NAME char(64)!, WORKER_ID u64!, THREAD_ID u64, SERVICE_STATE varchar(3)!, " +
		"LAST_ERROR_NUMBER int!, LAST_ERROR_MESSAGE varchar(1024)!, LAST_ERROR_TIMESTAMP timestamp(6)!, LAST_APPLIED_TRANSACTION char(57), " +
		"LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, " +
		"LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP timestamp(6)!, LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP timestamp(6)!, " +
		"APPLYING_TRANSACTION char(57), APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, " +
		"APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, APPLYING_TRANSACTION_START_APPLY_TIMESTAMP timestamp(6)!, " +
		"LAST_APPLIED_TRANSACTION_RETRIES_COUNT u64!, LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER int!, " +
		"LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE varchar(1024), LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP timestamp(6)!, " +
		"APPLYING_TRANSACTION_RETRIES_COUNT u64!, APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER int!, " +
		"APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE varchar(1024), APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP timestamp(6)!",
	"replication_asynchronous_connection_failover": "CHANNEL_NAME char(64)!, HOST char(255)!, PORT int!, NETWORK_NAMESPACE char(64), WEIGHT uint!, " +
		"MANAGED_NAME char(64)!",
	"replication_asynchronous_connection_failover_managed": "CHANNEL_NAME char(64)!, MANAGED_NAME char(64)!, MANAGED_TYPE char(64)!, CONFIGURATION json",
	"replication_connection_configuration": "CHANNEL_NAME char(64)!, HOST char(255)!, PORT int!, USER char(32)!, NETWORK_INTERFACE char(60)!, " +
		"AUTO_POSITION varchar(1)!, SSL_ALLOWED varchar(7)!, SSL_CA_FILE varchar(512)!, SSL_CA_PATH varchar(512)!, SSL_CERTIFICATE varchar(512)!, " +
		"SSL_CIPHER varchar(512)!, SSL_KEY varchar(512)!, SSL_VERIFY_SERVER_CERTIFICATE varchar(3)!, SSL_CRL_FILE varchar(255)!, " +
		"SSL_CRL_PATH varchar(255)!, CONNECTION_RETRY_INTERVAL int!, CONNECTION_RETRY_COUNT u64!, HEARTBEAT_INTERVAL double!, " +
		"TLS_VERSION varchar(255)!, PUBLIC_KEY varchar(512)!, GET_PUBLIC_KEY varchar(3)!, NETWORK_NAMESPACE varchar(64)!, " +
		"COMPRESSION_ALGORITHM char(64)!, ZSTD_COMPRESSION_LEVEL int!, TLS_CIPHERSUITES text, SOURCE_CONNECTION_AUTO_FAILOVER varchar(1)!, GTID_ONLY varchar(1)!",
	"replication_connection_status": "CHANNEL_NAME char(64)!, GROUP_NAME char(36)!, SOURCE_UUID char(36)!, THREAD_ID u64, SERVICE_STATE varchar(10)!, " +
		"COUNT_RECEIVED_HEARTBEATS u64!, LAST_HEARTBEAT_TIMESTAMP timestamp(6)!, RECEIVED_TRANSACTION_SET longtext!, LAST_ERROR_NUMBER int!, " +
		"LAST_ERROR_MESSAGE varchar(1024)!, LAST_ERROR_TIMESTAMP timestamp(6)!, LAST_QUEUED_TRANSACTION char(57), " +
		"LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, " +
		"LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP timestamp(6)!, LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP timestamp(6)!, " +
		"QUEUEING_TRANSACTION char(57), QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP timestamp(6)!, " +
		"QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP timestamp(6)!, QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP timestamp(6)!",
	"replication_group_member_stats": "CHANNEL_NAME char(64)!, VIEW_ID char(60)!, MEMBER_ID char(36)!, COUNT_TRANSACTIONS_IN_QUEUE u64!, " +
		"COUNT_TRANSACTIONS_CHECKED u64!, COUNT_CONFLICTS_DETECTED u64!, COUNT_TRANSACTIONS_ROWS_VALIDATING u64!, " +
		"TRANSACTIONS_COMMITTED_ALL_MEMBERS longtext!, LAST_CONFLICT_FREE_TRANSACTION text!, COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE u64!, " +
		"COUNT_TRANSACTIONS_REMOTE_APPLIED u64!, COUNT_TRANSACTIONS_LOCAL_PROPOSED u64!, COUNT_TRANSACTIONS_LOCAL_ROLLBACK u64!",
	"replication_group_members": "CHANNEL_NAME char(64)!, MEMBER_ID char(36)!, MEMBER_HOST char(255)!, MEMBER_PORT int, MEMBER_STATE char(64)!, " +
		"MEMBER_ROLE char(64)!, MEMBER_VERSION char(64)!, MEMBER_COMMUNICATION_STACK char(64)!",
	"rwlock_instances":                  "NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, WRITE_LOCKED_BY_THREAD_ID u64, READ_LOCKED_BY_COUNT uint!",
	"session_account_connect_attrs":     "PROCESSLIST_ID u64!, ATTR_NAME varchar(32)!, ATTR_VALUE varchar(1024), ORDINAL_POSITION int",
	"session_connect_attrs":             "PROCESSLIST_ID u64!, ATTR_NAME varchar(32)!, ATTR_VALUE varchar(1024), ORDINAL_POSITION int",
	"socket_instances":                  "EVENT_NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, THREAD_ID u64, SOCKET_ID int!, IP varchar(64)!, PORT int!, STATE varchar(6)!",
	"socket_summary_by_event_name":      "EVENT_NAME varchar(128)!, @file",
	"socket_summary_by_instance":        "EVENT_NAME varchar(128)!, OBJECT_INSTANCE_BEGIN u64!, @file",
	"table_handles":                     "OBJECT_TYPE varchar(64)!, OBJECT_SCHEMA varchar(64)!, OBJECT_NAME varchar(64)!, OBJECT_INSTANCE_BEGIN u64!, OWNER_THREAD_ID u64, OWNER_EVENT_ID u64, INTERNAL_LOCK varchar(64), EXTERNAL_LOCK varchar(64)",
	"table_lock_waits_summary_by_table": "OBJECT_TYPE varchar(64), OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64), @lock",
	"user_defined_functions":            "UDF_NAME varchar(64)!, UDF_RETURN_TYPE varchar(20)!, UDF_TYPE varchar(20)!, UDF_LIBRARY varchar(1024), UDF_USAGE_COUNT i64",
}
