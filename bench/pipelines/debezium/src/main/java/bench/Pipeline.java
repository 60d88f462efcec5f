package bench;

import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's engine with pgoutput, and upserts in batches through JDBC behind it: the calls that its JDBC sink connector makes in
 * upsert mode with a reduction buffer, without the connector, and without a Kafka in between. A batch of the engine, 2,048 rows
 * at most, is one transaction; of a key that comes twice in it, the last row counts. Tried, and slower: transactions of 500 rows,
 * which is the connector's default, and batches that the driver does not rewrite. Tried, and no faster: batches of 8,192 rows.
 */
public final class Pipeline {
  private static final String UPSERT =
      "insert into public.payments (payment_id, paid_on, amount) values (?, ?, ?)"
          + " on conflict (payment_id) do update set paid_on = excluded.paid_on, amount = excluded.amount";

  private final Connection store;
  private final PreparedStatement upsert;
  private long done = 0;

  private Pipeline(String storeUrl) throws SQLException {
    store = DriverManager.getConnection(storeUrl);
    store.setAutoCommit(false);
    upsert = store.prepareStatement(UPSERT);
  }

  public static void main(String[] args) throws Exception {
    Pipeline pipeline = new Pipeline(System.getenv("STORE_JDBC_URL"));
    DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
        .using(settings())
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

  private void take(
      List<RecordChangeEvent<SourceRecord>> events,
      DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
      throws InterruptedException {
    try {
      Map<String, Struct> rows = new LinkedHashMap<>();
      for (RecordChangeEvent<SourceRecord> event : events) {
        Struct row = ((Struct) event.record().value()).getStruct("after");
        rows.put(row.getString("payment_id"), row);
      }
      for (Struct row : rows.values()) {
        upsert.setString(1, row.getString("payment_id"));
        upsert.setObject(2, LocalDate.ofEpochDay(row.getInt32("paid_on")));
        upsert.setBigDecimal(3, (BigDecimal) row.get("amount"));
        upsert.addBatch();
      }
      upsert.executeBatch();
      store.commit();
      for (RecordChangeEvent<SourceRecord> event : events) committer.markProcessed(event);
      committer.markBatchFinished();
    } catch (SQLException error) {
      throw new IllegalStateException(error);
    }
    done += events.size();
    System.out.println("done " + done);
  }

  /** Batches and queue are as Debezium has them by default. */
  private static Properties settings() {
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
    settings.setProperty("tombstones.on.delete", "false");
    settings.setProperty("slot.name", System.getenv("SLOT"));
    settings.setProperty("database.hostname", System.getenv("SOURCE_HOST"));
    settings.setProperty("database.port", System.getenv("SOURCE_PORT"));
    settings.setProperty("database.user", System.getenv("SOURCE_USER"));
    settings.setProperty("database.password", System.getenv("SOURCE_PASSWORD"));
    settings.setProperty("database.dbname", System.getenv("SLOT"));
    return settings;
  }
}
