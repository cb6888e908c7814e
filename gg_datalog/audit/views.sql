-- The views of audit.duckdb over the Parquet files of an audit. ROWS, PLANS and KEPT stand for them.
CREATE VIEW history AS
SELECT * FROM read_parquet('ROWS', hive_partitioning = true);

CREATE VIEW planned AS
SELECT * EXCLUDE (filename) FROM read_parquet('PLANS', filename = true)
WHERE filename = (SELECT max(filename) FROM read_parquet('PLANS', filename = true));

CREATE VIEW latest AS
SELECT item, key, status AS ended, "like", run, finished
FROM history QUALIFY row_number() OVER (PARTITION BY item ORDER BY finished DESC, attempt DESC) = 1;

CREATE VIEW results AS
SELECT * FROM history WHERE "like" IS NULL
QUALIFY row_number() OVER (PARTITION BY key ORDER BY finished DESC, attempt DESC) = 1;

CREATE VIEW items AS
SELECT p.position, p.item, p.entry, p.program, p.configuration, p.kind, p.source, p.expected,
       coalesce(l.ended, 'pending') AS status,
       coalesce(list_contains(p.expected, l.ended), false) AS as_expected,
       l.key, l."like" IS NOT NULL AS cached, l."like", r.content, r.reason, r.engine, r.tool, r.rules,
       r.torch, l.run, r.host, r.attempt, r.started, r.finished, r.seconds, r.cpu, r.memory, r.facts,
       r.derived, coalesce(r.page, false) AS page, r.printed
FROM planned p LEFT JOIN latest l USING (item) LEFT JOIN results r ON r.key = l.key;

CREATE VIEW axes AS
SELECT item, a.name AS axis, a.value FROM planned, unnest(axes) u(a);

CREATE VIEW outputs AS
SELECT i.item, i.program, i.configuration, o.* FROM items i JOIN (
    SELECT key, unnest(outputs, recursive := true) FROM results) o USING (key);

CREATE VIEW findings AS
SELECT i.item, i.program, i.configuration, f.* FROM items i JOIN (
    SELECT key, generate_subscripts(findings, 1) AS place, unnest(findings, recursive := true)
    FROM results) f USING (key);

CREATE VIEW assumptions AS
SELECT i.item, i.program, i.configuration, a.* EXCLUDE (key) FROM items i JOIN (
    SELECT key, unnest(assumptions, recursive := true) FROM results) a USING (key);

CREATE VIEW operators AS
SELECT i.item, i.program, i.configuration, i.status, o.* EXCLUDE (key) FROM items i JOIN (
    SELECT key, unnest(operators, recursive := true) FROM results) o USING (key);

CREATE VIEW unsupported AS
SELECT item, program, configuration, status, target, seq, dist, reason
FROM operators WHERE NOT supported;

CREATE VIEW stages AS
SELECT i.item, i.program, i.configuration, s.* EXCLUDE (key) FROM items i JOIN (
    SELECT key, unnest(stages, recursive := true) FROM results) s USING (key);

CREATE VIEW limits AS
SELECT i.item, i.program, i.configuration, l.* EXCLUDE (key) FROM items i JOIN (
    SELECT key, unnest(limits, recursive := true) FROM results) l USING (key);

CREATE VIEW reports AS
SELECT i.item, i.key, r.report FROM items i JOIN results r USING (key) WHERE r.report IS NOT NULL;

-- What was killed between its facts and its row has facts twice.
CREATE VIEW kept AS
SELECT DISTINCT * EXCLUDE (appended) FROM read_parquet('KEPT', hive_partitioning = true);

COMMENT ON VIEW history IS 'One row for each time that an item was run, or found to be known already (like). The other views have the latest.';
COMMENT ON VIEW planned IS 'The items of the last plan.';
COMMENT ON VIEW latest IS 'How each item ended last, and by which key.';
COMMENT ON VIEW results IS 'What came out for each key, the last time that it was run.';
COMMENT ON VIEW items IS 'The items of the last plan with how they ended. status is pending where an item was not run yet; cached, where another item or run had the verdict.';
COMMENT ON VIEW axes IS 'The configuration of each item, one row for each axis of the matrix.';
COMMENT ON VIEW outputs IS 'Every sequential output of every item, and how the ranks make it up.';
COMMENT ON VIEW findings IS 'Every finding of every item; place 1 is the cause.';
COMMENT ON VIEW assumptions IS 'What each verdict takes on trust.';
COMMENT ON VIEW operators IS 'Which kinds of operators occur in each item.';
COMMENT ON VIEW unsupported IS 'Operators that no rule describes, by item.';
COMMENT ON VIEW stages IS 'Where the time of each item went.';
COMMENT ON VIEW limits IS 'What each item might use, and used.';
COMMENT ON VIEW reports IS 'The report of each item, as `gg-datalog run --format json` prints it.';
COMMENT ON VIEW kept IS 'Facts and derived relations of the items that are kept, one row for each fact; the views of schemas facts and derived have them by relation.';
