-- Where the chains of the outputs break. Runs once, when a result is written: what needs recursion
-- is stored, the rest are views.

-- ---- tensors ------------------------------------------------------------------------------------

CREATE VIEW tensor_node AS
SELECT b.side, b.tensor, b.rank, b.node, b.kind, coalesce(g.target, '') AS target,
       coalesce(g.source, '') AS source, coalesce(g.module, '') AS module,
       CASE b.side WHEN 'seq' THEN b.node ELSE 'r' || b.rank || '.' || b.node END AS name
FROM base_tensor b
LEFT JOIN graph_node g ON g.side = b.side AND g.rank = b.rank AND g.name = b.node;
COMMENT ON VIEW tensor_node IS 'Base tensors with the node that computes each, as a person knows it.';

CREATE VIEW tensor_mapped AS
SELECT "of" AS tensor FROM seq_mapped
UNION SELECT tensor FROM base_tensor WHERE side = 'seq' AND kind = 'constant';
COMMENT ON VIEW tensor_mapped IS 'Sequential base tensors that can be rebuilt, and constants.';

CREATE TABLE stored.held_piece AS
WITH piece AS (
    SELECT block, product(hi - lo) AS elements,
           list([hi - lo, dim, dist_stride, dist_lo] ORDER BY dim, dist_stride, dist_lo, hi - lo)
               AS places
    FROM block_run GROUP BY block
)
SELECT h.dist, h.seq, h.parts, coalesce(p.places, []) AS places, coalesce(p.elements, 1) AS elements
FROM holds h LEFT JOIN piece p USING (block);
CREATE VIEW internal.held_piece AS SELECT * FROM stored.held_piece;
COMMENT ON VIEW internal.held_piece IS
    'How many elements of distributed tensor `dist` one relation to `seq` accounts for, and which '
    '(per run: count, dimension, stride, offset).';

CREATE VIEW internal.tensor_size AS
SELECT side, tensor,
       CASE shape WHEN '' THEN 1 ELSE list_product(string_split(shape, 'x')::DOUBLE[]) END AS elements
FROM base_tensor;
COMMENT ON VIEW internal.tensor_size IS 'How many elements a base tensor has.';

CREATE TABLE stored.tensor_related AS
SELECT h.dist AS tensor
FROM (SELECT DISTINCT dist, places, elements FROM stored.held_piece) h
JOIN tensor_size s ON s.side = 'dist' AND s.tensor = h.dist
GROUP BY h.dist, s.elements HAVING sum(h.elements) >= s.elements
UNION SELECT tensor FROM base_tensor WHERE side = 'dist' AND kind IN ('constant', 'uninitialised');
CREATE VIEW internal.tensor_related AS SELECT * FROM stored.tensor_related;
COMMENT ON VIEW internal.tensor_related IS
    'Distributed base tensors all elements of which are accounted for, and constants.';

CREATE VIEW internal.tensor_opaque AS
SELECT t.side, t.tensor, 'unsupported operator' AS reason, u.reason AS detail
FROM unsupported_operator u
JOIN tensor_node t ON t.side = u.side AND t.rank = u.rank AND t.node = u.node
UNION
SELECT t.side, t.tensor, 'opaque input', o.reason
FROM opaque_input o
JOIN tensor_node t ON t.side = o.side AND t.rank = o.rank AND t.node = o.node;
COMMENT ON VIEW internal.tensor_opaque IS 'Base tensors whose value no rule describes.';

-- ---- chains from the outputs back to where they break -------------------------------------------

-- Masks and clamped ids are no ends in themselves: a rule looks through them, and so do chains.
CREATE VIEW internal.helper_tensor AS
SELECT gives AS tensor FROM integer_test UNION SELECT gives FROM integer_pair
UNION SELECT gives FROM integer_not UNION SELECT gives FROM integer_fill
UNION SELECT gives FROM integer_sum
EXCEPT SELECT "of" FROM wanted EXCEPT SELECT "of" FROM returned;
COMMENT ON VIEW internal.helper_tensor IS 'Integer tensors that rules look through instead of relating them.';

CREATE TABLE stored.unknown_need AS
WITH RECURSIVE known AS MATERIALIZED (
    SELECT 'seq' AS side, tensor FROM tensor_mapped
    UNION SELECT 'seq', "of" FROM seq_available
    UNION SELECT 'dist', tensor FROM tensor_related
    UNION SELECT side, tensor FROM base_tensor
    WHERE side = 'dist' AND kind = 'input' AND tensor NOT IN (SELECT tensor FROM tensor_opaque)
),
needs AS MATERIALIZED (
    SELECT DISTINCT n.side, n.tensor, n.needs FROM tensor_needs n
    ANTI JOIN known k ON k.side = n.side AND k.tensor = n.needs
),
helper AS MATERIALIZED (SELECT tensor FROM helper_tensor),
reach(side, tensor, needs) AS (
    SELECT side, tensor, needs FROM needs ANTI JOIN helper USING (tensor)
    UNION
    SELECT r.side, r.tensor, n.needs FROM reach r
    JOIN helper h ON h.tensor = r.needs
    JOIN needs n ON n.side = r.side AND n.tensor = r.needs
)
SELECT side, tensor, needs, needs IN (SELECT tensor FROM helper) AS helper FROM reach;
CREATE VIEW internal.unknown_need AS SELECT * FROM stored.unknown_need;
COMMENT ON VIEW internal.unknown_need IS
    'Operands of a tensor that are not there (seq) or hold nothing (dist), also through helpers.';

CREATE VIEW internal.seq_chain AS
SELECT m.wants, m."of" AS tensor, b."of" IS NOT NULL AS first
FROM missing_for m LEFT JOIN broken_at b ON b.wants = m.wants AND b."of" = m."of";
COMMENT ON VIEW internal.seq_chain IS
    'Sequential tensors that are missing for output `wants`, and where its chain breaks (first).';

CREATE TABLE stored.dist_chain AS
WITH RECURSIVE chain(wants, rank, tensor) AS (
    SELECT r.wants, r.rank, r."of" FROM returned r JOIN rank_wrong w USING (wants, rank)
    WHERE r."of" NOT IN (SELECT tensor FROM tensor_related)
    UNION
    SELECT c.wants, c.rank, n.needs FROM chain c
    JOIN stored.unknown_need n ON n.side = 'dist' AND n.tensor = c.tensor AND NOT n.helper
)
SELECT c.wants, c.rank, c.tensor, n.tensor IS NULL AS first
FROM chain c LEFT JOIN (
    SELECT DISTINCT tensor FROM stored.unknown_need WHERE side = 'dist' AND NOT helper
) n ON n.tensor = c.tensor;
CREATE VIEW internal.dist_chain AS SELECT * FROM stored.dist_chain;
COMMENT ON VIEW internal.dist_chain IS
    'Distributed tensors that hold nothing between what `rank` returns and where its chain breaks.';

CREATE VIEW internal.break_helper AS
SELECT c.wants, c.rank, c.tensor AS goes_into, n.needs AS tensor
FROM dist_chain c JOIN unknown_need n ON n.side = 'dist' AND n.tensor = c.tensor
WHERE c.first AND n.helper
UNION
SELECT c.wants, c.rank, c.tensor, u."of"
FROM dist_chain c JOIN dist_lookup l ON l.gives = c.tensor JOIN lookup_uses u ON u."by" = l."by"
WHERE c.first AND u."of" IN (SELECT tensor FROM helper_tensor)
UNION
SELECT c.wants, c.rank, c.tensor, n.tensor
FROM dist_chain c JOIN dist_lookup l ON l.gives = c.tensor
JOIN lookup_uses u ON u."by" = l."by"
JOIN tensor_needs n ON n.side = 'dist' AND n.needs = c.tensor
WHERE c.first AND l."by" NOT IN (SELECT "by" FROM lookup_masked);
COMMENT ON VIEW internal.break_helper IS
    'Masks and ids that tensor `goes_into` at a break is computed from, and what should mask a lookup.';

-- ---- pairs of operators with operands in common -------------------------------------------------

CREATE TABLE stored.operator_pair AS
WITH at_seq AS (
    SELECT tensor FROM seq_chain WHERE first
),
at_dist AS (
    SELECT tensor FROM stored.dist_chain WHERE first
),
needs AS MATERIALIZED (
    SELECT side, tensor, needs FROM tensor_needs UNION SELECT 'seq', "of", needs FROM seq_needs
),
pair AS (
    SELECT s.tensor AS seq, d.tensor AS dist, count(DISTINCT s.needs) AS matched
    FROM needs s JOIN holds h ON h.seq = s.needs
    JOIN needs d ON d.side = 'dist' AND d.needs = h.dist
    WHERE s.side = 'seq'
      AND (s.tensor IN (SELECT tensor FROM at_seq) OR d.tensor IN (SELECT tensor FROM at_dist))
    GROUP BY ALL
    UNION ALL
    SELECT s.tensor, d.tensor, 0
    FROM seq_chain c JOIN tensor_node s ON s.side = 'seq' AND s.tensor = c.tensor
    JOIN tensor_node d ON d.side = 'dist' AND d.target = s.target
    JOIN (SELECT DISTINCT tensor FROM stored.dist_chain WHERE first) e ON e.tensor = d.tensor
    WHERE c.first AND s.target <> ''
),
signed AS MATERIALIZED (
    SELECT DISTINCT n.tensor, o.attributes AS signature
    FROM tensor_needs n JOIN operator_node o ON o.by = n.by AND o.side = n.side
)
SELECT p.seq, p.dist, max(p.matched) AS matched, s.target = d.target AS same_target,
       s.source <> '' AND s.source = d.source AS same_line,
       coalesce(y.elements <= x.elements, true) AS fits,
       coalesce(a.signature = b.signature AND (a.signature <> '' OR s.target = d.target), false)
           AS same_signature,
       EXISTS (SELECT 1 FROM holds h WHERE h.dist = p.dist AND h.seq = p.seq) AS related
FROM pair p
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = p.seq
JOIN tensor_node d ON d.side = 'dist' AND d.tensor = p.dist
LEFT JOIN signed a ON a.tensor = p.seq
LEFT JOIN signed b ON b.tensor = p.dist
LEFT JOIN tensor_size x ON x.side = 'seq' AND x.tensor = p.seq
LEFT JOIN tensor_size y ON y.side = 'dist' AND y.tensor = p.dist
GROUP BY ALL;
CREATE VIEW internal.operator_pair AS SELECT * FROM stored.operator_pair;
COMMENT ON VIEW internal.operator_pair IS
    'A sequential and a distributed operator, one of them where a chain breaks, with `matched` '
    'operands of the first that operands of the second hold something of (0: of the same kind only); '
    'fits: the second is no larger than the first, so that it may be a share of it.';

CREATE VIEW internal.meant_for AS
SELECT dist, seq, same_target OR same_signature AS likely FROM operator_pair
WHERE dist IN (SELECT tensor FROM dist_chain WHERE first)
QUALIFY row_number() OVER (
    PARTITION BY dist
    ORDER BY same_signature DESC, same_target DESC, fits DESC,
             seq IN (SELECT "of" FROM missing_for) DESC, same_line DESC, matched DESC, seq
) = 1;
COMMENT ON VIEW internal.meant_for IS
    'The sequential operator that comes closest to a distributed one at which a chain breaks; likely: '
    'it is of the same kind.';

CREATE TABLE stored.chain_break AS
WITH place AS (
    SELECT wants, NULL::BIGINT AS rank, tensor, tensor AS at, false AS helper FROM seq_chain
    WHERE first
    UNION ALL SELECT wants, rank, tensor, tensor, false FROM dist_chain WHERE first
    UNION ALL SELECT wants, rank, tensor, goes_into, true FROM break_helper
)
SELECT a.wants, a.rank, a.helper,
       CASE WHEN a.rank IS NULL THEN a.tensor ELSE m.seq END AS seq,
       CASE WHEN a.rank IS NOT NULL THEN a.tensor END AS dist,
       NOT a.helper AND (
           a.rank IS NULL OR coalesce(m.likely, false)
           OR a.tensor IN (SELECT tensor FROM tensor_opaque WHERE side = 'dist')
       ) AS telling
FROM place a LEFT JOIN meant_for m ON a.rank IS NOT NULL AND m.dist = a.at;
CREATE VIEW chain_break AS SELECT * FROM stored.chain_break;
COMMENT ON VIEW chain_break IS
    'Where the chain of output `wants` breaks: at sequential tensor `seq` on every rank, or on one '
    'rank at distributed tensor `dist`, which comes closest to `seq`. helper: a mask or clamped id '
    'that goes into such a tensor; telling: worth a finding.';

CREATE VIEW internal.stray_break AS
SELECT b.wants, b.rank, b.dist, b.telling FROM chain_break b
WHERE b.seq IS NULL AND NOT b.helper AND NOT EXISTS (
    SELECT 1 FROM chain_break t
    WHERE t.wants = b.wants AND t.rank = b.rank AND t.telling AND t.seq IS NOT NULL
);
COMMENT ON VIEW internal.stray_break IS
    'Breaks at distributed tensors that no sequential operator comes close to, on ranks without others.';
