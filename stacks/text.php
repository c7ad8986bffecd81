<?php
# Text and pictures of test sites, the same each time.
mt_srand( 20151116 );

const SYLLABLES = [ 'ba', 'con', 'de', 'fil', 'ger', 'hu', 'in', 'jo', 'ka', 'lem', 'mo', 'nar', 'op', 'pe', 'qui', 'ro',
	'sta', 'ti', 'ul', 'ver', 'wi', 'xa', 'yo', 'zen' ];
const WORDS = 2000;
$words = [];
for ( $i = 0; $i < WORDS; $i++ ) {
	$w = '';
	for ( $k = mt_rand( 1, 4 ); $k > 0; $k-- ) {
		$w .= SYLLABLES[mt_rand( 0, count( SYLLABLES ) - 1 )];
	}
	$words[] = $w;
}

function sentence(): string {
	global $words;
	$s = [];
	for ( $k = mt_rand( 6, 18 ); $k > 0; $k-- ) {
		$s[] = $words[(int)( WORDS * ( mt_rand() / mt_getrandmax() ) ** 2 ) % WORDS]; # some words are frequent
	}
	return ucfirst( implode( ' ', $s ) ) . '. ';
}

function sentences(): string {
	$p = '';
	for ( $k = mt_rand( 3, 8 ); $k > 0; $k-- ) {
		$p .= sentence();
	}
	return $p;
}

# A picture is a PNG with bands of colour.
function draw( int $i, string $file ): void {
	$rows = '';
	for ( $y = 0; $y < 120; $y++ ) {
		$rows .= "\0";
		for ( $x = 0; $x < 160; $x++ ) {
			$rows .= chr( ( $x * $i ) & 255 ) . chr( ( $y * 2 + $i * 7 ) & 255 ) . chr( ( $x ^ $y ) & 255 );
		}
	}
	$png = "\x89PNG\r\n\x1a\n";
	foreach ( [ 'IHDR' => pack( 'NNCCCCC', 160, 120, 8, 2, 0, 0, 0 ), 'IDAT' => gzcompress( $rows ), 'IEND' => '' ] as $type => $data ) {
		$png .= pack( 'N', strlen( $data ) ) . $type . $data . pack( 'N', crc32( $type . $data ) );
	}
	if ( file_put_contents( $file, $png ) !== strlen( $png ) ) {
		fwrite( STDERR, "error: cannot write $file\n" );
		exit( 1 );
	}
}
