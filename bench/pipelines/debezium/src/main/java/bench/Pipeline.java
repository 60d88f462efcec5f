package bench;

import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.connect.source.SourceRecord;

/** Debezium's engine with pgoutput, and behind it, in the same JVM, the sink that the first argument names. */
public final class Pipeline {
  private final Sink sink;
  private long done = 0;

  private Pipeline(Sink sink) {
    this.sink = sink;
  }

  public static void main(String[] args) throws Exception {
    Pipeline pipeline = new Pipeline(sinkOf(args[0]));
    DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
        .using(pipeline.settings())
        .using(
            new DebeziumEngine.ConnectorCallback() {
              @Override
              public void pollingStarted() {
                System.out.println("ready");
              }
            })
        .using(
            (isSuccess, message, error) -> {
              System.err.println(message + " " + error);
              System.exit(1);
            })
        .notifying(pipeline::take)
        .build()
        .run();
  }

  private static Sink sinkOf(String name) throws Exception {
    String url = System.getenv("STORE_JDBC_URL");
    String user = System.getenv("STORE_USER");
    String password = System.getenv("STORE_PASSWORD");
    return switch (name) {
      case "jdbc-sink" -> JdbcSink.asItComes(url, user, password);
      case "jdbc-sink-tuned" -> JdbcSink.tuned(url, user, password);
      case "hand-written" -> new HandWritten(url, user, password);
      default ->
          throw new IllegalArgumentException(
              name + " is no sink; there is jdbc-sink, jdbc-sink-tuned, hand-written");
    };
  }

  private void take(
      List<RecordChangeEvent<SourceRecord>> events,
      DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
      throws InterruptedException {
    try {
      sink.write(events.stream().map(RecordChangeEvent::record).toList());
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    for (RecordChangeEvent<SourceRecord> event : events) committer.markProcessed(event);
    committer.markBatchFinished();
    done += events.size();
    System.out.println("done " + done);
  }

  private Properties settings() {
    Properties settings = new Properties();
    settings.setProperty("name", "bench");
    settings.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
    settings.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
    settings.setProperty("topic.prefix", "bench");
    settings.setProperty("plugin.name", "pgoutput");
    settings.setProperty("publication.name", "bench");
    settings.setProperty("publication.autocreate.mode", "disabled");
    settings.setProperty("snapshot.mode", "no_data");
    settings.setProperty("table.include.list", "public.log");
    // the columns and the key of the target: the log's own number stays behind
    settings.setProperty("column.include.list", "public[.]log[.](payment_id|paid_on|amount)");
    settings.setProperty("message.key.columns", "public.log:payment_id");
    settings.setProperty("tombstones.on.delete", "false");
    settings.setProperty("max.batch.size", String.valueOf(sink.batchRows()));
    // four batches, as by default
    settings.setProperty("max.queue.size", String.valueOf(4 * sink.batchRows()));
    settings.setProperty("slot.name", System.getenv("SLOT"));
    settings.setProperty("database.hostname", System.getenv("SOURCE_HOST"));
    settings.setProperty("database.port", System.getenv("SOURCE_PORT"));
    settings.setProperty("database.user", System.getenv("SOURCE_USER"));
    settings.setProperty("database.password", System.getenv("SOURCE_PASSWORD"));
    settings.setProperty("database.dbname", System.getenv("SLOT"));
    return settings;
  }
}
