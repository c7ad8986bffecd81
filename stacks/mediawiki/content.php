<?php
# Writes the content of the test site, the same for the same numbers: content.php DIR PAGES COMMENTS USERS PICTURES makes
# DIR/content.xml, a dump of MediaWiki's, and DIR/pictures.
[ , $dir, $pages, $comments, $users, $pictures ] = $argv;
require __DIR__ . '/text.php';

function paragraph(): string {
	return sentences() . "\n\n";
}

function article( int $n ): string {
	global $pages, $pictures;
	$t = "{{Box|title=Page $n|number=$n|topic=" . ( $n % 40 ) . "}}\n" . paragraph();
	if ( $n % 3 === 0 ) {
		$t .= '[[File:Picture ' . ( 1 + $n % $pictures ) . ".png|thumb|Picture of page $n]]\n";
	}
	for ( $k = mt_rand( 3, 7 ); $k > 0; $k-- ) {
		$t .= '== ' . rtrim( sentence(), '. ' ) . " ==\n" . paragraph();
		for ( $j = mt_rand( 1, 5 ); $j > 0; $j-- ) {
			$to = mt_rand( 1, $pages );
			$t .= "* [[Page $to]]: " . sentence() . "\n";
		}
		$t .= "\n'''" . trim( sentence() ) . "''' " . paragraph();
	}
	return $t . '[[Category:Topic ' . ( $n % 40 ) . "]]\n{{Footer}}";
}

$out = fopen( "$dir/content.xml", 'w' );
$id = 0;
$now = 1447632000; # November 2015
function put( string $title, int $ns, string $text ): void {
	global $out, $id, $now, $users;
	$id++;
	$when = gmdate( 'Y-m-d\TH:i:s\Z', $now + 60 * $id );
	fwrite( $out, '<page><title>' . htmlspecialchars( $title, ENT_XML1 ) . "</title><ns>$ns</ns><revision><timestamp>$when" .
		'</timestamp><contributor><username>User ' . ( 1 + $id % $users ) . '</username></contributor><model>wikitext</model>' .
		'<format>text/x-wiki</format><text xml:space="preserve">' . htmlspecialchars( $text, ENT_XML1 ) .
		"</text></revision></page>\n" );
}

fwrite( $out, '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">' . "\n" );
put( 'Template:Box', 10, '{| class="wikitable" style="float:right"' . "\n! colspan=2 | {{{title}}}\n|-\n| Number || {{{number}}}\n|-\n" .
	"| Topic || [[:Category:Topic {{{topic}}}]]\n|}" );
put( 'Template:Footer', 10, '----' . "\nThis page is part of a test site. [[Front]]" );
put( 'Template:Row', 10, '<tr><td>{{{1}}}</td><td>[[Page {{{1}}}]]</td><td>{{{2}}}</td></tr>' );
for ( $i = 0; $i < 40; $i++ ) {
	put( "Category:Topic $i", 14, paragraph() . '{{Footer}}' );
}
for ( $i = 1; $i <= $pages; $i++ ) {
	put( "Page $i", 0, article( $i ) );
}
for ( $i = 1; $i <= $comments; $i++ ) {
	$t = '';
	for ( $k = mt_rand( 1, 6 ); $k > 0; $k-- ) {
		$t .= '== ' . rtrim( sentence(), '. ' ) . " ==\n" . paragraph() . ":: " . sentence() . '[[User:User ' . mt_rand( 1, $users ) . "]]\n\n";
	}
	put( 'Talk:Page ' . ( 1 + ( $i * 7 ) % $pages ), 1, $t );
}
$front = "Welcome to the test site.\n\n";
for ( $i = 1; $i <= 60; $i++ ) {
	$n = mt_rand( 1, $pages );
	$front .= "* [[Page $n]]: " . sentence() . ( $i % 6 ? "\n" : "{{Box|title=Page $n|number=$n|topic=" . ( $n % 40 ) . "}}\n" );
}
put( 'MediaWiki:Mainpage', 8, 'Front' );
put( 'Front', 0, $front . "\n{{Footer}}" );
$heavy = "<table>";
for ( $i = 1; $i <= 400; $i++ ) {
	$heavy .= '{{Row|' . mt_rand( 1, $pages ) . '|' . trim( sentence() ) . '}}';
}
$heavy .= "</table>\n";
for ( $i = 1; $i <= 100; $i++ ) {
	$n = mt_rand( 1, $pages );
	$heavy .= "{{Box|title=Page $n|number=$n|topic=" . ( $n % 40 ) . "}}\n== Part $i ==\n" . paragraph() .
		'[[File:Picture ' . ( 1 + $i % $pictures ) . ".png|thumb|Picture $i]]\n";
}
put( 'Heavy', 0, $heavy . "\n{{Footer}}" );
fwrite( $out, "</mediawiki>\n" );
fclose( $out );

mkdir( "$dir/pictures" );
for ( $i = 1; $i <= $pictures; $i++ ) {
	draw( $i, "$dir/pictures/Picture $i.png" );
}
