package bench;

import io.debezium.connector.jdbc.JdbcSinkConnectorTask;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's own JDBC sink connector in upsert mode: its task is handed what a topic of one partition would have held. Either with
 * the settings that it has by default, or with the fastest of those tried.
 */
final class JdbcSink implements Sink {
  /**
   * The reduction buffer is for a key that comes twice in a batch: a statement of several rows, which the driver makes of them, may
   * not touch one twice. Tried, and slower: batches of 2,048 rows, written whole or by 500. Tried, and no faster: batches of 8,192
   * written by 2,000, no reduction buffer, and unnest of arrays, which fails on dates unless they are Connect's.
   */
  private static final Map<String, String> TUNED =
      Map.of("use.reduction.buffer", "true", "batch.size", "8192");

  private final JdbcSinkConnectorTask task = new JdbcSinkConnectorTask();
  private final int batchRows;
  private long offset = 0;

  private JdbcSink(String url, String user, String password, int batchRows, Map<String, String> more) {
    this.batchRows = batchRows;
    Map<String, String> settings = new HashMap<>(more);
    settings.put("name", "bench");
    settings.put("connection.url", url);
    settings.put("connection.username", user);
    settings.put("connection.password", password);
    settings.put("insert.mode", "upsert");
    settings.put("primary.key.mode", "record_key");
    settings.put("collection.name.format", "payments");
    settings.put("schema.evolution", "none");
    task.start(settings);
  }

  /** What an engine hands over at a time by default is 2,048 rows; the sink writes them by 500. */
  static JdbcSink asItComes(String url, String user, String password) {
    return new JdbcSink(url, user, password, 2_048, Map.of());
  }

  static JdbcSink tuned(String url, String user, String password) {
    return new JdbcSink(url + "?reWriteBatchedInserts=true", user, password, 8_192, TUNED);
  }

  @Override
  public int batchRows() {
    return batchRows;
  }

  @Override
  public void write(List<SourceRecord> rows) {
    List<SinkRecord> records = new ArrayList<>(rows.size());
    for (SourceRecord row : rows)
      records.add(
          new SinkRecord(row.topic(), 0, row.keySchema(), row.key(), row.valueSchema(), row.value(), offset++));
    task.put(records);
    // it throws only at the next call
    if (task.getLastProcessingException() != null) throw new ConnectException(task.getLastProcessingException());
  }
}
