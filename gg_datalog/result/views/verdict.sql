-- What comes back for each output, and the verdict.

CREATE VIEW internal.sum_difference AS
WITH counted AS (
    SELECT dist, seq, count(*) FILTER (state <> 'complete') AS lacking
    FROM sum_found GROUP BY dist, seq
),
fitting AS (
    SELECT dist, seq FROM counted QUALIFY lacking = min(lacking) OVER (PARTITION BY seq)
)
SELECT q.gives AS seq, coalesce(n.name, f.dist) AS dist, coalesce(n.source, '') AS source,
       coalesce(u.name, t."of") AS term, f.state, f.times, f.dist AS "by", t."of" AS base
FROM sum_found f
JOIN fitting b USING (dist, seq)
JOIN seq_sum q ON q."by" = f.seq
JOIN term_of t ON t."by" = f.seq AND t.place = f.place
LEFT JOIN tensor_node u ON u.side = 'seq' AND u.tensor = t."of"
LEFT JOIN dist_sum d ON d."by" = f.dist
LEFT JOIN tensor_node n ON n.side = 'dist' AND n.tensor = d.gives
WHERE f.state <> 'complete' OR NOT is_one(f.times);
COMMENT ON VIEW internal.sum_difference IS
    'Terms of sequential sum `seq` (`base` as a tensor) that the distributed sum `by` that comes '
    'closest counts differently.';

CREATE VIEW internal.open_origin AS
WITH opener AS (
    SELECT "by", gives FROM result_of UNION SELECT "by", gives FROM seq_lookup
)
SELECT DISTINCT p.dist, p.seq, o.gives AS origin
FROM part_of p JOIN opener o USING ("by")
WHERE o.gives IN (SELECT tensor FROM base_tensor WHERE side = 'seq');
COMMENT ON VIEW internal.open_origin IS
    'The sequential tensor whose reduction is still open in what `dist` holds of `seq`.';

CREATE VIEW internal.open_cause AS
SELECT DISTINCT a.origin, b.seq, b.dist AS used_by, c.wants
FROM blocked b
JOIN chain_break c ON c.seq = b.seq
JOIN open_origin a ON a.dist = coalesce(b.operand, b.dist)
WHERE b.reason IN ('operand is a part of a reduction', 'result is a part of a reduction')
  AND b.seq NOT IN (SELECT seq FROM sum_difference WHERE state = 'complete')
  AND EXISTS (SELECT 1 FROM open_origin h WHERE h.seq = a.origin AND h.origin = a.origin);
COMMENT ON VIEW internal.open_cause IS
    'Sequential tensor `origin`, of which ranks have only a part, though `used_by` uses it as a whole; '
    'the chain of output `wants` breaks there.';

CREATE TABLE stored.returned_state AS
SELECT r.wants, r.rank, 'r' || r.rank || '.' || n.dist AS dist, coalesce(g.source, '') AS source,
       CASE
           WHEN r.wants IN (SELECT wants FROM output_misplaced)
                OR r.wants IN (SELECT wants FROM state_lost) THEN 'order'
           WHEN EXISTS (SELECT 1 FROM rank_right x WHERE x.wants = r.wants AND x.rank = r.rank)
               THEN 'right'
           WHEN bool_or(NOT is_open(h.parts) AND is_one(h.times)) THEN 'piece'
           WHEN bool_or(NOT is_open(h.parts)) THEN 'coefficient'
           WHEN bool_or(is_open(h.parts)) THEN 'part'
           ELSE 'nothing'
       END AS state,
       coalesce(min(h.times) FILTER (NOT is_open(h.parts)), min(h.times)) AS times
FROM returned r
JOIN returned_name n ON n.wants = r.wants AND n.rank = r.rank
LEFT JOIN returned_holds h ON h.wants = r.wants AND h.rank = r.rank
LEFT JOIN graph_node g ON g.side = 'dist' AND g.rank = r.rank AND g.name = n.dist
GROUP BY r.wants, r.rank, n.dist, g.source;
CREATE VIEW returned_state AS SELECT * FROM stored.returned_state;
COMMENT ON VIEW returned_state IS
    'What a rank returns for an output: right (it, or a whole share of it), order (that, but with '
    'elements or shares in another order), piece (some of what it '
    'returns is unaccounted for), coefficient, part (of a reduction) or nothing related.';

CREATE VIEW internal.return_break AS
SELECT s.wants, s.rank, w."of" AS seq, s.dist, s.source,
       CASE s.state WHEN 'part' THEN 'result is a part of a reduction'
                    WHEN 'coefficient' THEN 'other coefficient'
                    WHEN 'nothing' THEN 'different operand'
                    ELSE 'different range' END AS reason
FROM returned_state s JOIN wanted w ON w.wants = s.wants
WHERE s.wants NOT IN (SELECT wants FROM output_mapped)
  AND s.wants NOT IN (SELECT wants FROM chain_break WHERE telling)
  AND (s.state <> 'right' OR s.wants NOT IN (SELECT wants FROM rank_wrong));
COMMENT ON VIEW internal.return_break IS
    'Outputs that are computed, but come back in another form, with the reason.';

CREATE TABLE stored.break_beyond AS
WITH rank_first AS MATERIALIZED (
    SELECT DISTINCT wants, tensor AS dist,
           tensor IN (SELECT tensor FROM tensor_opaque WHERE side = 'dist') AS opaque
    FROM dist_break
)
SELECT b.wants, b.rank, b.seq, b.dist, b.telling,
       EXISTS (SELECT 1 FROM tensor_opaque o WHERE o.side = 'seq' AND o.tensor = b.seq)
       OR EXISTS (SELECT 1 FROM tensor_opaque o WHERE o.side = 'dist' AND o.tensor = b.dist)
       OR (
           b.rank IS NULL
           AND EXISTS (
               SELECT 1 FROM operator_pair p JOIN rank_first f ON f.dist = p.dist AND f.opaque
               WHERE p.seq = b.seq AND f.wants = b.wants
                 AND NOT EXISTS (
                     SELECT 1 FROM meant_for m WHERE m.dist = p.dist AND m.likely AND m.seq <> p.seq
                 )
                 AND (p.same_target OR NOT EXISTS (
                     SELECT 1 FROM operator_pair q JOIN rank_first g ON g.dist = q.dist
                     WHERE q.seq = b.seq AND q.same_target AND g.wants = b.wants AND NOT g.opaque
                 ))
           )
       ) AS beyond
FROM chain_break b WHERE NOT b.helper;
CREATE VIEW internal.break_beyond AS SELECT * FROM stored.break_beyond;
COMMENT ON VIEW internal.break_beyond IS
    'Whether only an unsupported operator or an opaque input stands in the way at a break.';

CREATE TABLE stored.output_found AS
WITH breaks AS (
    SELECT wants, bool_or(beyond) AND bool_and(beyond OR NOT telling) AS beyond
    FROM internal.break_beyond GROUP BY wants
)
SELECT o.wants, o.seq,
       CASE
           WHEN o.wants IN (SELECT wants FROM output_misplaced)
                AND o.wants IN (SELECT wants FROM order_unknown) THEN 'inconclusive'
           WHEN o.wants IN (SELECT wants FROM output_misplaced)
                OR o.wants IN (SELECT wants FROM state_lost) THEN 'unmapped'
           WHEN o.wants IN (SELECT wants FROM output_mapped)
                AND NOT EXISTS (SELECT 1 FROM draw_shared) THEN 'mapped'
           WHEN o.wants IN (SELECT wants FROM output_mapped) THEN 'inconclusive'
           WHEN coalesce(b.beyond, false) OR EXISTS (SELECT 1 FROM coefficient_out_of_range)
               THEN 'inconclusive'
           ELSE 'unmapped'
       END AS status
FROM output_name o LEFT JOIN breaks b USING (wants);
CREATE VIEW output_status AS
SELECT f.wants, f.seq, coalesce(d.status, f.status) AS status, coalesce(d.evidence, 'none') AS evidence
FROM stored.output_found f LEFT JOIN stored.output_decision d USING (wants)
ORDER BY f.wants;
COMMENT ON VIEW output_status IS 'The status of every output: mapped, unmapped or inconclusive, and what that rests on: proof, '
    'numbers, relations or none.';

CREATE VIEW verdict AS
SELECT CASE
           WHEN EXISTS (SELECT 1 FROM collective_mismatch)
                OR EXISTS (SELECT 1 FROM draw_repeated) OR EXISTS (SELECT 1 FROM draw_unequal)
                OR EXISTS (SELECT 1 FROM gradient_lacked) THEN 'does-not-refine'
           WHEN EXISTS (SELECT 1 FROM output_status WHERE status = 'unmapped')
               THEN 'does-not-refine'
           WHEN EXISTS (SELECT 1 FROM output_status WHERE status = 'inconclusive')
               THEN 'inconclusive'
           WHEN EXISTS (SELECT 1 FROM output_status) THEN 'refines'
           ELSE 'inconclusive'
       END AS verdict;
COMMENT ON VIEW verdict IS 'refines, does-not-refine or inconclusive.';
