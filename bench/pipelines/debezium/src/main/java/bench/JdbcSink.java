package bench;

import io.debezium.connector.jdbc.JdbcSinkConnectorTask;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's own JDBC sink connector in upsert mode: its task is handed what a topic of one partition would have held. The
 * reduction buffer is for a key that comes twice in a batch: a statement of several rows may not touch one twice. Tried, and
 * slower: batches of 2,048 rows, which is the engine's default, written whole or by 500, which is the sink's. Tried, and no faster:
 * batches of 8,192 written by 2,000, no reduction buffer, and unnest of arrays, which fails on dates unless they are Connect's.
 */
final class JdbcSink implements Sink {
  private final JdbcSinkConnectorTask task = new JdbcSinkConnectorTask();
  private long offset = 0;

  JdbcSink(String url, String user, String password) {
    task.start(
        Map.of(
            "name", "bench",
            "connection.url", url,
            "connection.username", user,
            "connection.password", password,
            "insert.mode", "upsert",
            "primary.key.mode", "record_key",
            "collection.name.format", "payments",
            "schema.evolution", "none",
            "use.reduction.buffer", "true",
            "batch.size", String.valueOf(batchRows())));
  }

  @Override
  public int batchRows() {
    return 8_192;
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
