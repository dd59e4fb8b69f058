import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintStream;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Follows a server with Debezium's embedded engine, and prints a line for each event: its topic, its key and its value,
 * separated by tabs. The first argument is HOST:PORT, the second a directory in which it keeps its position and the
 * definitions: it goes on there.
 */
public class Follow {
    public static void main(String[] args) throws Exception {
        String[] at = args[0].split(":");
        Properties p = new Properties();
        p.setProperty("name", "godwit");
        p.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        p.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        p.setProperty("offset.storage.file.filename", args[1] + "/offsets");
        p.setProperty("offset.flush.interval.ms", "500");
        p.setProperty("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
        p.setProperty("schema.history.internal.file.filename", args[1] + "/history");
        p.setProperty("database.hostname", at[0]);
        p.setProperty("database.port", at[1]);
        p.setProperty("database.user", "repl");
        p.setProperty("database.password", "p");
        p.setProperty("database.server.id", "4711");
        p.setProperty("topic.prefix", "g");
        p.setProperty("database.include.list", "follow,tpcc,ycsb");
        p.setProperty("include.schema.changes", "false");
        p.setProperty("snapshot.mode", "no_data");
        p.setProperty("snapshot.locking.mode", "none");
        p.setProperty("decimal.handling.mode", "string");
        p.setProperty("binary.handling.mode", "hex");
        p.setProperty("tombstones.on.delete", "false");
        p.setProperty("skipped.operations", "none");
        p.setProperty("converter.schemas.enable", "false");
        p.setProperty("errors.max.retries", "-1");
        p.setProperty("retriable.restart.connector.wait.ms", "1000");
        p.setProperty("connect.keep.alive.interval.ms", "1000");
        PrintStream out = System.out;
        System.setOut(System.err);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(p)
            .using((ok, message, error) -> {
                System.err.println("ended: " + ok + " " + message);
                if (error != null) {
                    error.printStackTrace();
                }
                System.exit(ok ? 0 : 1);
            })
            .notifying(e -> {
                out.println(e.destination() + "\t" + e.key() + "\t" + e.value());
                out.flush();
            }).build();
        ExecutorService run = Executors.newSingleThreadExecutor();
        run.execute(engine);
        run.awaitTermination(1, TimeUnit.HOURS);
    }
}
