-- Who holds what.

CREATE VIEW made_tensor AS
SELECT side, tensor, any_value(rank) AS rank, arg_min(name, position) AS node
FROM graph_node WHERE tensor <> '' GROUP BY side, tensor;
COMMENT ON VIEW made_tensor IS
    'Base tensors under the name of the first node that has it; what a node needs on its way has none.';

CREATE VIEW shard AS
SELECT d.rank, d.node, s.node AS seq, b.place AS dim, b.lo, b.hi,
       string_split(f.shape, 'x')[b.place + 1]::BIGINT AS extent, b.stride,
       c.value AS times,
       CASE WHEN h.parts <> 'nil' THEN format('{} over {}:{} of {}', p.kind, p.lo, p.hi, p.extent) END
           AS open
FROM holds h
JOIN made_tensor d ON d.side = 'dist' AND d.tensor = h.dist
JOIN made_tensor s ON s.side = 'seq' AND s.tensor = h.seq
JOIN base_tensor f ON f.side = 'seq' AND f.tensor = h.seq
JOIN coefficient_value c ON c.times = h.times
LEFT JOIN block_run b ON b.block = h.block
LEFT JOIN part_axis p ON p.parts = h.parts AND p.level = 0;
COMMENT ON VIEW shard IS
    'Node `node` of rank `rank` holds, of dimension `dim` of sequential `seq` (dimensions of one '
    'position are not counted), positions `stride * lo` to `stride * (hi - 1)` of `extent`, `stride` '
    'apart; several rows of one dimension are added up. It is `times` of it; open: only a part of '
    'the reduction that makes it. Nodes that only move or scale what another one made are not listed.';

CREATE VIEW operator AS
SELECT side, rank, name AS node, target, source, module, dtype, shape
FROM graph_node WHERE op = 'call_function';
COMMENT ON VIEW operator IS 'What the graphs compute: one row per call, as it was captured.';
