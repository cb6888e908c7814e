-- Who holds what, what computes it, and what meets. Everything here is for people: it names what it
-- needs with its schema, so that it is there whoever opens the database.

-- What several ranks get from a collective may be one tensor: then it has a node on each of them.
CREATE VIEW internal.made_tensor AS
SELECT side, tensor, rank, arg_min(name, position) AS node
FROM graph_node WHERE tensor <> '' GROUP BY side, tensor, rank;
COMMENT ON VIEW internal.made_tensor IS
    'Base tensors under the name of the first node of each rank that has it; what a node needs on its '
    'way has none.';

CREATE VIEW shard AS
SELECT d.rank, d.node, s.node AS seq, b.place AS dim, b.lo, b.hi,
       string_split(f.shape, 'x')[b.place + 1]::BIGINT AS extent, b.stride,
       c.value AS times,
       CASE WHEN is_open(h.parts) THEN format('{} over {}:{} of {}', p.kind, p.lo, p.hi, p.extent) END
           AS open
FROM holds h
JOIN internal.made_tensor d ON d.side = 'dist' AND d.tensor = h.dist
JOIN internal.made_tensor s ON s.side = 'seq' AND s.tensor = h.seq
JOIN base_tensor f ON f.side = 'seq' AND f.tensor = h.seq
JOIN coefficient_value c ON c.times = h.times
LEFT JOIN block_run b ON b.block = h.block
LEFT JOIN part_axis p ON p.parts = h.parts AND p.level = 0;
COMMENT ON VIEW shard IS
    'Node `node` of rank `rank` holds, of dimension `dim` of sequential `seq` (dimensions of one '
    'position are not counted), positions `stride * lo` to `stride * (hi - 1)` of `extent`, `stride` '
    'apart; several rows of one dimension are added up. It is `times` of it; open: only a part of '
    'the reduction that makes it. Nodes that only move or scale what another one made are not listed.';

-- ---- relations as a person writes them ----------------------------------------------------------

CREATE VIEW internal.held_tensor AS
SELECT side, tensor, rank, node, shape FROM base_tensor
UNION ALL
SELECT side, tensor, rank, name,
       array_to_string(list_filter(string_split(shape, 'x'), lambda size: size <> '1'), 'x')
FROM graph_node ANTI JOIN base_tensor USING (side, tensor)
WHERE op = 'placeholder' AND tensor <> '';
COMMENT ON VIEW internal.held_tensor IS
    'Base tensors, and inputs that nothing uses: what `holds` may speak of.';

CREATE VIEW internal.block_text AS
WITH run AS (
    SELECT block, 'seq' AS side, place AS dim, stride AS step, hi - lo AS n, stride * lo AS start
    FROM block_run
    UNION ALL
    SELECT block, 'dist', dim, dist_stride, hi - lo, dist_stride * dist_lo
    FROM block_run WHERE dim >= 0
),
nest AS (
    SELECT block, side, dim, step, n,
           coalesce(lag(step * n) OVER (PARTITION BY block, side, dim ORDER BY step, n), 1) AS within
    FROM run WHERE n > 1
),
span AS (
    SELECT block, side, dim, product(n)::BIGINT AS width, bool_and(step = within) AS nested,
           string_agg(n || ' every ' || step, ' and ' ORDER BY step, n) AS several
    FROM nest GROUP BY ALL
),
dimension AS (
    SELECT r.block, r.side, r.dim, r.start, coalesce(s.width, 1) AS width,
           CASE WHEN NOT s.nested THEN r.start || ' + ' || s.several
                WHEN coalesce(s.width, 1) = 1 THEN r.start::VARCHAR
                ELSE r.start || ':' || (r.start + s.width) END AS text,
           coalesce(s.nested, true) AS nested
    FROM (SELECT block, side, dim, sum(start)::BIGINT AS start FROM run GROUP BY ALL) r
    LEFT JOIN span s USING (block, side, dim)
),
shaped AS (
    SELECT DISTINCT h.block, t.side, t.shape FROM holds h
    JOIN internal.held_tensor t ON t.side = 'seq' AND t.tensor = h.seq
    UNION
    SELECT DISTINCT h.block, t.side, t.shape FROM holds h
    JOIN internal.held_tensor t ON t.side = 'dist' AND t.tensor = h.dist
),
place AS (
    SELECT s.*, d.dim, d.text,
           d.nested AND d.start = 0 AND d.width = string_split(s.shape, 'x')[d.dim + 1]::BIGINT AS whole
    FROM shaped s JOIN dimension d USING (block, side)
)
SELECT block, side, shape,
       CASE WHEN bool_and(whole) THEN ''
            ELSE '[' || string_agg(CASE WHEN whole THEN ':' ELSE text END, ', ' ORDER BY dim) || ']'
       END AS text
FROM place GROUP BY block, side, shape;
COMMENT ON VIEW internal.block_text IS
    'What a block reaches of a tensor of shape `shape` on one side, as an index: `[:, 0:64]`.';

CREATE VIEW internal.relation_text AS
WITH part AS (
    SELECT p.parts, string_agg(
        'Partial(' || p.kind || ' over ' || p.lo || ':' || p.hi || ' of ' || p.extent
        || coalesce(' in ' || o.node, '') || ') of ', '' ORDER BY p.level DESC
    ) AS text
    FROM part_axis p LEFT JOIN operator_node o ON o.side = 'seq' AND o."by" = p.operator
    GROUP BY p.parts
),
scalar AS (
    SELECT times, num, num || CASE den WHEN 1 THEN '' ELSE '/' || den END AS ratio,
           CASE WHEN under = '' THEN over
                ELSE CASE over WHEN '' THEN '1' ELSE over END || ' / (' || under || ')' END AS rest
    FROM coefficient_value
),
factor AS (
    SELECT times, CASE WHEN is_one(times) THEN '' WHEN rest = '' THEN ratio || ' x '
                       WHEN ratio = '1' THEN rest || ' x ' ELSE ratio || ' * ' || rest || ' x ' END
               AS text
    FROM scalar
),
turned AS (
    SELECT block, list(place ORDER BY dim, dist_stride DESC, place) <> list(place ORDER BY place)
               AS turned
    FROM block_run WHERE dim >= 0 AND hi - lo > 1 GROUP BY block
)
SELECT h.dist, h.seq, h.times, h.parts, h.block, d.rank, d.node, s.node AS seq_node,
       'r' || d.rank || '.' || d.node || coalesce(x.text, '') || ' = ' || f.text
       || coalesce(p.text, '') || s.node || coalesce(y.text, '')
       || CASE WHEN t.turned THEN ' (dimensions in another order)' ELSE '' END AS text
FROM holds h
JOIN internal.held_tensor d ON d.side = 'dist' AND d.tensor = h.dist
JOIN internal.held_tensor s ON s.side = 'seq' AND s.tensor = h.seq
JOIN factor f USING (times)
LEFT JOIN part p USING (parts)
LEFT JOIN turned t USING (block)
LEFT JOIN internal.block_text x ON x.block = h.block AND x.side = 'dist' AND x.shape = d.shape
LEFT JOIN internal.block_text y ON y.block = h.block AND y.side = 'seq' AND y.shape = s.shape;
COMMENT ON VIEW internal.relation_text IS 'Every row of `holds` as a person writes it.';

CREATE VIEW relation AS
SELECT rank, node, seq_node AS seq, text FROM internal.relation_text
UNION
SELECT m.rank, m.node, t.seq_node,
       'r' || m.rank || '.' || m.node || substr(t.text, length('r' || t.rank || '.' || t.node) + 1)
FROM internal.relation_text t
JOIN internal.made_tensor m ON m.side = 'dist' AND m.tensor = t.dist AND m.rank <> t.rank;
COMMENT ON VIEW relation IS
    'Relation `text` between node `node` of rank `rank` and sequential `seq`, as `explain` writes it: '
    '`r0.mm = Partial(sum over 0:256 of 512 in mm_1) of mm_1[:, 0:64]`. Dimensions of one position '
    'are not counted. What all members of a collective get is listed for each of them.';

-- ---- graphs -------------------------------------------------------------------------------------

CREATE VIEW operator AS
SELECT side, rank, name AS node, target, source, module, dtype, shape
FROM graph_node WHERE op = 'call_function';
COMMENT ON VIEW operator IS 'What the graphs compute: one row per call, as it was captured.';

CREATE VIEW edge AS
WITH made AS (
    SELECT side, tensor, rank, node FROM base_tensor
    UNION
    SELECT 'dist', n.tensor, c.rank, c.node FROM stored.collective c
    JOIN graph_node n ON n.side = 'dist' AND n.rank = c.rank AND n.name = c.node
)
SELECT DISTINCT n.side, t.rank, t.node, coalesce(h.rank, o.rank) AS operand_rank,
       coalesce(h.node, o.node) AS operand, n.place
FROM tensor_needs n
JOIN made t ON t.side = n.side AND t.tensor = n.tensor
JOIN base_tensor o ON o.side = n.side AND o.tensor = n.needs
LEFT JOIN internal.made_tensor h ON h.side = n.side AND h.rank = t.rank AND h.tensor = n.needs
WHERE (t.rank, t.node) <> (coalesce(h.rank, o.rank), coalesce(h.node, o.node));
COMMENT ON VIEW edge IS
    'Node `node` of rank `rank` is computed from `operand` of rank `operand_rank` (another one where '
    'ranks exchange something). Nodes that only move or scale are looked through; `place` counts terms '
    'and operands as the rules have them, not the arguments of the call. Of the sequential graph (side '
    'seq) ranks are 0.';

CREATE OR REPLACE VIEW collective AS
WITH met AS (
    SELECT instance, list('r' || rank || '.' || node ORDER BY rank, node) AS members
    FROM stored.collective GROUP BY instance
),
given AS (
    SELECT rank, node, list(DISTINCT operand ORDER BY operand) AS takes
    FROM edge WHERE side = 'dist' AND operand_rank = rank GROUP BY rank, node
)
SELECT c.instance, c.kind, c.reduction, c.ranks, c.rank, c.node, m.members, g.takes,
       n.dtype, n.shape
FROM stored.collective c
JOIN met m USING (instance)
LEFT JOIN given g USING (rank, node)
LEFT JOIN graph_node n ON n.side = 'dist' AND n.rank = c.rank AND n.name = c.node;
COMMENT ON VIEW collective IS
    'Node `node` of rank `rank` takes part in collective `instance`, which meets the nodes `members` '
    'of ranks `ranks`. takes: the nodes of the rank that go in; dtype, shape: of what comes out.';
