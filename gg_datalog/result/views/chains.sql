-- Where the chains of the outputs break. `seq_break` and `dist_break` are found by
-- gg_datalog/result/chains.py before the queries that are stored here.

CREATE TABLE stored.seq_break (wants BIGINT, tensor VARCHAR);
CREATE VIEW internal.seq_break AS SELECT * FROM stored.seq_break;
COMMENT ON VIEW internal.seq_break IS
    'Sequential tensors at which the chain of output `wants` breaks: they are missing, and all that '
    'they are computed from is there.';

CREATE TABLE stored.dist_break (wants BIGINT, rank BIGINT, tensor VARCHAR);
CREATE VIEW internal.dist_break AS SELECT * FROM stored.dist_break;
COMMENT ON VIEW internal.dist_break IS
    'Distributed tensors at which the chain of what `rank` returns for `wants` breaks: they hold '
    'nothing, and all that they are computed from holds something.';

CREATE VIEW internal.break_helper AS
SELECT c.wants, c.rank, c.tensor AS goes_into, n.needs AS tensor
FROM dist_break c JOIN unknown_need n ON n.side = 'dist' AND n.tensor = c.tensor
WHERE n.helper
UNION
SELECT c.wants, c.rank, c.tensor, u."of"
FROM dist_break c JOIN dist_lookup l ON l.gives = c.tensor JOIN lookup_uses u ON u."by" = l."by"
WHERE u."of" IN (SELECT tensor FROM helper_tensor)
UNION
SELECT c.wants, c.rank, c.tensor, n.tensor
FROM dist_break c JOIN dist_lookup l ON l.gives = c.tensor
JOIN lookup_uses u ON u."by" = l."by"
JOIN tensor_needs n ON n.side = 'dist' AND n.needs = c.tensor
WHERE l."by" NOT IN (SELECT "by" FROM lookup_masked);
COMMENT ON VIEW internal.break_helper IS
    'Masks and ids that tensor `goes_into` at a break is computed from, and what should mask a lookup.';

-- ---- pairs of operators with operands in common -------------------------------------------------

CREATE TABLE stored.operator_pair AS
WITH at_seq AS MATERIALIZED (
    SELECT DISTINCT tensor FROM seq_break
),
at_dist AS MATERIALIZED (
    SELECT DISTINCT tensor FROM dist_break
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
    FROM at_seq c JOIN tensor_node s ON s.side = 'seq' AND s.tensor = c.tensor
    JOIN tensor_node d ON d.side = 'dist' AND d.target = s.target
    JOIN at_dist e ON e.tensor = d.tensor
    WHERE s.target <> ''
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
WHERE dist IN (SELECT tensor FROM dist_break)
QUALIFY row_number() OVER (
    PARTITION BY dist
    ORDER BY same_signature DESC, same_target DESC, fits DESC,
             seq IN (SELECT "of" FROM missing) DESC, same_line DESC, matched DESC, seq
) = 1;
COMMENT ON VIEW internal.meant_for IS
    'The sequential operator that comes closest to a distributed one at which a chain breaks; likely: '
    'it is of the same kind.';

CREATE TABLE stored.chain_break AS
WITH place AS (
    SELECT wants, NULL::BIGINT AS rank, tensor, tensor AS at, false AS helper FROM seq_break
    UNION ALL SELECT wants, rank, tensor, tensor, false FROM dist_break
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
