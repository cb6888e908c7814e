-- What follows from the relations for the outputs: where chains break, and why.
-- Runs once, when a result is written. What needs recursion is stored, the rest are views.

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

CREATE VIEW tensor_related AS
SELECT DISTINCT dist AS tensor FROM holds
UNION SELECT tensor FROM base_tensor WHERE side = 'dist' AND kind IN ('constant', 'uninitialised');
COMMENT ON VIEW tensor_related IS 'Distributed base tensors that hold something, and constants.';

-- ---- chains from the outputs back to where they break --------------------------------------------

CREATE TABLE stored.seq_chain AS
WITH RECURSIVE mapped AS MATERIALIZED (SELECT tensor FROM tensor_mapped),
needs AS MATERIALIZED (
    SELECT DISTINCT tensor, needs FROM tensor_needs
    WHERE side = 'seq' AND needs NOT IN (SELECT tensor FROM mapped)
),
chain(wants, tensor) AS (
    SELECT wants, "of" FROM wanted
    WHERE wants NOT IN (SELECT wants FROM output_mapped)
      AND "of" NOT IN (SELECT tensor FROM mapped)
    UNION
    SELECT c.wants, n.needs FROM chain c JOIN needs n ON n.tensor = c.tensor
)
SELECT c.wants, c.tensor, NOT EXISTS (SELECT 1 FROM needs n WHERE n.tensor = c.tensor) AS first
FROM chain c;
CREATE VIEW seq_chain AS SELECT * FROM stored.seq_chain;
COMMENT ON VIEW seq_chain IS
    'Sequential tensors without relation between output `wants` and where its chain breaks (first).';

CREATE TABLE stored.dist_chain AS
WITH RECURSIVE related AS MATERIALIZED (SELECT tensor FROM tensor_related),
needs AS MATERIALIZED (
    SELECT DISTINCT tensor, needs FROM tensor_needs
    WHERE side = 'dist' AND needs NOT IN (SELECT tensor FROM related)
),
chain(wants, rank, tensor) AS (
    SELECT r.wants, r.rank, r."of" FROM returned r JOIN rank_wrong w USING (wants, rank)
    WHERE r."of" NOT IN (SELECT tensor FROM related)
    UNION
    SELECT c.wants, c.rank, n.needs FROM chain c JOIN needs n ON n.tensor = c.tensor
)
SELECT c.wants, c.rank, c.tensor,
       NOT EXISTS (SELECT 1 FROM needs n WHERE n.tensor = c.tensor) AS first
FROM chain c;
CREATE VIEW dist_chain AS SELECT * FROM stored.dist_chain;
COMMENT ON VIEW dist_chain IS
    'Distributed tensors that hold nothing between what `rank` returns and where its chain breaks.';

-- ---- pairs of operators with operands in common ---------------------------------------------------

CREATE TABLE stored.operator_pair AS
WITH at_seq AS (SELECT DISTINCT tensor FROM stored.seq_chain WHERE first),
at_dist AS (SELECT DISTINCT tensor FROM stored.dist_chain WHERE first),
needs AS MATERIALIZED (SELECT DISTINCT side, tensor, needs FROM tensor_needs),
pair AS (
    SELECT s.tensor AS seq, d.tensor AS dist, count(DISTINCT s.needs) AS matched
    FROM needs s JOIN holds h ON h.seq = s.needs
    JOIN needs d ON d.side = 'dist' AND d.needs = h.dist
    WHERE s.side = 'seq'
      AND (s.tensor IN (SELECT tensor FROM at_seq) OR d.tensor IN (SELECT tensor FROM at_dist))
    GROUP BY ALL
),
signed AS MATERIALIZED (
    SELECT DISTINCT n.tensor, o.attributes AS signature
    FROM tensor_needs n JOIN operator_node o ON o.by = n.by AND o.side = n.side
)
SELECT p.seq, p.dist, p.matched, s.target = d.target AS same_target,
       coalesce(a.signature = b.signature AND (a.signature <> '' OR s.target = d.target), false)
           AS same_signature,
       EXISTS (SELECT 1 FROM holds h WHERE h.dist = p.dist AND h.seq = p.seq) AS related
FROM pair p
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = p.seq
JOIN tensor_node d ON d.side = 'dist' AND d.tensor = p.dist
LEFT JOIN signed a ON a.tensor = p.seq
LEFT JOIN signed b ON b.tensor = p.dist;
CREATE VIEW operator_pair AS SELECT * FROM stored.operator_pair;
COMMENT ON VIEW operator_pair IS
    'A sequential and a distributed operator, one of them where a chain breaks, with `matched` '
    'operands of the first that operands of the second hold something of.';

-- The sequential operator that a distributed one at a break was meant to be.
CREATE VIEW meant_for AS
SELECT dist, seq FROM operator_pair
WHERE dist IN (SELECT tensor FROM dist_chain WHERE first)
  AND (same_target OR same_signature)
QUALIFY row_number() OVER (
    PARTITION BY dist ORDER BY same_signature DESC, matched DESC, same_target DESC, seq
) = 1;
COMMENT ON VIEW meant_for IS
    'The sequential operator that comes closest to a distributed one at which a chain breaks.';

CREATE VIEW chain_break AS
SELECT wants, NULL::BIGINT AS rank, tensor AS seq, NULL::VARCHAR AS dist
FROM seq_chain WHERE first
UNION ALL
SELECT c.wants, c.rank, m.seq, c.tensor
FROM dist_chain c LEFT JOIN meant_for m ON m.dist = c.tensor WHERE c.first;
COMMENT ON VIEW chain_break IS
    'Where the chain of output `wants` breaks: at sequential tensor `seq` on every rank, or on one '
    'rank at distributed tensor `dist`, which comes closest to `seq`.';

-- ---- why ----------------------------------------------------------------------------------------------

CREATE VIEW tensor_opaque AS
SELECT t.side, t.tensor, 'unsupported operator' AS reason, u.reason AS detail
FROM unsupported_operator u
JOIN tensor_node t ON t.side = u.side AND t.rank = u.rank AND t.node = u.node
UNION
SELECT t.side, t.tensor, 'opaque input', o.reason
FROM opaque_input o
JOIN tensor_node t ON t.side = o.side AND t.rank = o.rank AND t.node = o.node;
COMMENT ON VIEW tensor_opaque IS 'Base tensors whose value no rule describes.';

CREATE VIEW operand_state AS
SELECT p.seq, p.dist, s.needs AS seq_operand, any_value(d.needs) AS dist_operand,
       max(CASE WHEN h.parts <> 'nil' THEN 1 WHEN h.times <> '[1, 1, , ]' THEN 2 ELSE 3 END)
           AS best,
       any_value(h.times) AS times
FROM operator_pair p
JOIN (SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'seq') s ON s.tensor = p.seq
JOIN (SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'dist') d ON d.tensor = p.dist
JOIN holds h ON h.seq = s.needs AND h.dist = d.needs
GROUP BY p.seq, p.dist, s.needs;
COMMENT ON VIEW operand_state IS
    'What a distributed operator holds of operand `seq_operand` of a sequential one; best: 1 a part '
    'of a reduction, 2 another coefficient, 3 the tensor or a piece of it.';

CREATE VIEW pair_reason AS
SELECT p.seq, p.dist, p.matched, p.same_target, p.same_signature, p.related,
       CASE
           WHEN p.dist IN (SELECT tensor FROM tensor_opaque WHERE side = 'dist')
               THEN 'unsupported operator'
           WHEN w.worst = 1 THEN 'operand is a part of a reduction'
           WHEN w.worst = 2 THEN 'other coefficient'
           WHEN p.same_signature AND p.matched < n.total THEN 'different operand'
           WHEN p.same_signature THEN 'different range'
           WHEN p.same_target THEN 'different attribute'
           ELSE 'no counterpart'
       END AS reason,
       CASE WHEN w.worst < 3 THEN w.operand END AS operand
FROM operator_pair p
JOIN (
    SELECT seq, dist, min(best) AS worst, arg_min(dist_operand, best) AS operand
    FROM operand_state GROUP BY seq, dist
) w USING (seq, dist)
JOIN (
    SELECT tensor, count(DISTINCT needs) AS total FROM tensor_needs WHERE side = 'seq' GROUP BY tensor
) n ON n.tensor = p.seq;
COMMENT ON VIEW pair_reason IS 'Why the distributed operator of a pair does not give the sequential one.';

CREATE VIEW holder AS
SELECT h.seq, h.dist, h.times, h.parts
FROM holds h JOIN (SELECT DISTINCT tensor FROM seq_chain WHERE first) c ON c.tensor = h.seq;
COMMENT ON VIEW holder IS 'What holds something of a sequential tensor at which a chain breaks.';

CREATE TABLE stored.blocked AS
WITH consumer AS (
    SELECT DISTINCT h.seq, n.tensor AS dist, h.dist AS operand
    FROM holder h JOIN tensor_needs n ON n.side = 'dist' AND n.needs = h.dist
    WHERE h.parts <> 'nil' AND n.tensor NOT IN (SELECT tensor FROM tensor_related)
),
held AS (
    SELECT seq, dist, 'operand is a part of a reduction' AS reason, operand FROM consumer
    UNION
    SELECT seq, dist,
           CASE WHEN parts <> 'nil' THEN 'result is a part of a reduction'
                WHEN times <> '[1, 1, , ]' THEN 'other coefficient'
                ELSE 'different range' END,
           NULL
    FROM holder
    WHERE dist NOT IN (SELECT operand FROM consumer)
),
closest AS (
    SELECT r.seq, r.dist, r.reason, r.operand
    FROM pair_reason r JOIN tensor_node d ON d.side = 'dist' AND d.tensor = r.dist
    WHERE NOT r.related AND r.seq IN (SELECT tensor FROM seq_chain WHERE first)
      AND NOT EXISTS (
          SELECT 1 FROM holder h JOIN tensor_node t ON t.side = 'dist' AND t.tensor = h.dist
          WHERE h.seq = r.seq AND t.rank = d.rank
      )
    QUALIFY row_number() OVER (
        PARTITION BY r.seq, d.rank
        ORDER BY r.same_signature DESC, r.same_target DESC, r.matched DESC, r.dist
    ) = 1
)
SELECT seq, dist, reason, operand FROM held
UNION
SELECT seq, dist, reason, operand FROM closest
UNION
SELECT b.seq, b.dist, r.reason, r.operand
FROM chain_break b JOIN pair_reason r ON r.seq = b.seq AND r.dist = b.dist
UNION
SELECT b.seq, NULL, 'no counterpart', NULL
FROM chain_break b
WHERE b.rank IS NULL
  AND b.seq NOT IN (SELECT seq FROM held) AND b.seq NOT IN (SELECT seq FROM closest);
CREATE VIEW blocked AS SELECT * FROM stored.blocked;
COMMENT ON VIEW blocked IS
    'The distributed operators that come closest to sequential tensor `seq` at which a chain breaks, '
    'and why they do not give it; `operand` is the operand that is at fault.';

-- ---- the verdict --------------------------------------------------------------------------------------

CREATE VIEW break_beyond AS
SELECT b.wants, b.rank, b.seq, b.dist,
       EXISTS (SELECT 1 FROM tensor_opaque o WHERE o.side = 'seq' AND o.tensor = b.seq)
       OR EXISTS (SELECT 1 FROM tensor_opaque o WHERE o.side = 'dist' AND o.tensor = b.dist)
       OR (
           b.rank IS NULL
           AND EXISTS (
               SELECT 1 FROM operator_pair p JOIN tensor_opaque o ON o.tensor = p.dist
               WHERE o.side = 'dist' AND p.seq = b.seq
                 AND (p.same_target OR NOT EXISTS (
                     SELECT 1 FROM operator_pair q WHERE q.seq = b.seq AND q.same_target
                 ))
           )
       ) AS beyond
FROM chain_break b;
COMMENT ON VIEW break_beyond IS
    'Whether only an unsupported operator or an opaque input stands in the way at a break.';

CREATE VIEW output_status AS
WITH seq_break AS (
    SELECT wants, bool_and(beyond) AS beyond FROM break_beyond WHERE rank IS NULL GROUP BY wants
),
dist_break AS (
    SELECT wants, bool_or(beyond) AND bool_and(beyond OR seq IS NULL) AS beyond
    FROM break_beyond WHERE rank IS NOT NULL GROUP BY wants
)
SELECT o.wants, o.seq,
       CASE
           WHEN o.wants IN (SELECT wants FROM output_mapped) THEN 'mapped'
           WHEN coalesce(s.beyond, false) OR coalesce(d.beyond, false)
               OR EXISTS (SELECT 1 FROM coefficient_out_of_range) THEN 'inconclusive'
           ELSE 'unmapped'
       END AS status
FROM output_name o
LEFT JOIN seq_break s ON s.wants = o.wants
LEFT JOIN dist_break d ON d.wants = o.wants
ORDER BY o.wants;
COMMENT ON VIEW output_status IS 'The status of every output: mapped, unmapped or inconclusive.';

CREATE VIEW returned_state AS
SELECT r.wants, r.rank, 'r' || r.rank || '.' || n.dist AS dist, coalesce(g.source, '') AS source,
       CASE
           WHEN EXISTS (SELECT 1 FROM rank_right x WHERE x.wants = r.wants AND x.rank = r.rank)
               THEN 'right'
           WHEN bool_or(h.parts = 'nil' AND h.times = '[1, 1, , ]') THEN 'piece'
           WHEN bool_or(h.parts = 'nil') THEN 'coefficient'
           WHEN bool_or(h.parts <> 'nil') THEN 'part'
           ELSE 'nothing'
       END AS state,
       coalesce(any_value(h.times) FILTER (h.parts = 'nil'), any_value(h.times)) AS times
FROM returned r
JOIN returned_name n ON n.wants = r.wants AND n.rank = r.rank
LEFT JOIN returned_holds h ON h.wants = r.wants AND h.rank = r.rank
LEFT JOIN graph_node g ON g.side = 'dist' AND g.rank = r.rank AND g.name = n.dist
GROUP BY r.wants, r.rank, n.dist, g.source;
COMMENT ON VIEW returned_state IS
    'What a rank returns for an output: right (it, or a whole share of it), piece (some of what it '
    'returns is unaccounted for), coefficient, part (of a reduction) or nothing related.';

CREATE VIEW verdict AS
SELECT CASE
           WHEN EXISTS (SELECT 1 FROM collective_mismatch) THEN 'does-not-refine'
           WHEN EXISTS (SELECT 1 FROM output_status WHERE status = 'unmapped')
               THEN 'does-not-refine'
           WHEN EXISTS (SELECT 1 FROM output_status WHERE status = 'inconclusive')
               THEN 'inconclusive'
           WHEN EXISTS (SELECT 1 FROM output_status) THEN 'refines'
           ELSE 'inconclusive'
       END AS verdict;
COMMENT ON VIEW verdict IS 'refines, does-not-refine or inconclusive.';
